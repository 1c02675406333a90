// Round ticks for axes, and the growth of running totals; pure.

/** Returns round numbers from 0 to at least `most`, whole ones, about `count` of them. */
export function wholeTicks(most, count = 4) {
  const rough = Math.max(most, 1) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, [1, 2, 5, 10].find((each) => each * power >= rough) * power);
  const ticks = [0];
  while (ticks.at(-1) < most) ticks.push(ticks.at(-1) + step);
  if (ticks.length === 1) ticks.push(step);
  return ticks;
}

const STEPS = [1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800];

/** Returns round moments between two (milliseconds), at most `count` of them. offset: the zone's minutes west of UTC. */
export function timeTicks(from, to, count, offset = 0) {
  const rough = (to - from) / 1000 / Math.max(1, count);
  const step = 1000 * (STEPS.find((each) => each >= rough) ?? STEPS.at(-1));
  const shift = offset * 60_000;
  const ticks = [];
  for (let at = Math.ceil((from - shift) / step) * step + shift; at <= to; at += step) ticks.push(at);
  return ticks;
}

/**
 * Returns how much a running total grew between neighbours: null where either is not known. A total that shrank was
 * begun anew, and its value is the growth.
 */
export function growth(totals) {
  return totals.map((total, index) => {
    const before = index ? totals[index - 1] : null;
    if (total === null || before === null || total === undefined || before === undefined) return null;
    return total >= before ? total - before : total;
  });
}
