// Numbers in words of a fixed width. A number that is not known is a dash, never zero.

const NUMBER = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

const known = (value) => typeof value === "number" && Number.isFinite(value);

/** Returns a number with separators. */
export const amount = (value) => (known(value) ? NUMBER.format(value) : "–");

/** Returns a number in few characters: `12.3K`. */
export const compact = (value) => (known(value) ? (Math.abs(value) < 10_000 ? NUMBER : COMPACT).format(value) : "–");

/** Returns an amount of bytes in binary units. */
export function bytes(value) {
  if (!known(value)) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let index = 0;
  let rest = value;
  while (rest >= 1024 && index < units.length - 1) {
    rest /= 1024;
    index += 1;
  }
  return `${rest < 10 && index ? rest.toFixed(1) : Math.round(rest)} ${units[index]}`;
}

/** Returns a share from 0 to 1 as a percentage. */
export const percent = (value) => (known(value) ? `${Math.round(value * 100)} %` : "–");

/** Returns `1 object`, `3 objects`. */
export const counted = (count, one, many = `${one}s`) => `${amount(count)} ${count === 1 ? one : many}`;
