// The bearer token: in memory, and in the tab's storage only if the user asked for it.

const PLACE = "penstock.token";
let held = stored();

function stored() {
  try {
    return sessionStorage.getItem(PLACE);
  } catch {
    return null;
  }
}

/** Returns the token, or null. */
export const token = () => held;

/** Holds a token. kept: until the tab is closed, also over a reload. */
export function hold(text, { kept }) {
  held = text;
  forgetStored();
  if (kept) {
    try {
      sessionStorage.setItem(PLACE, text);
    } catch {
      // Storage may be forbidden; the token stays in memory.
    }
  }
}

/** Forgets the token everywhere. */
export function forget() {
  held = null;
  forgetStored();
}

function forgetStored() {
  try {
    sessionStorage.removeItem(PLACE);
  } catch {
    // Nothing is stored where storage is forbidden.
  }
}
