// Numbers in words and figures, as people read them.

/** 1234 → "1,234". @param {number} number */
export const many = (number) => number.toLocaleString("en");

/** Seconds as "42 s", "12 min", "3 h 05 min"; nothing for none. @param {number} seconds */
export function minutes(seconds) {
  if (!seconds) return "";
  if (seconds < 100) return `${Math.round(seconds)} s`;
  const whole = Math.round(seconds / 60);
  return whole < 100 ? `${whole} min` : `${Math.floor(whole / 60)} h ${String(whole % 60).padStart(2, "0")} min`;
}

/** A share as "93 %"; never "100 %" for less. @param {number | null} share */
export function percent(share) {
  if (share === null) return "";
  return `${share < 1 ? Math.min(99, Math.round(share * 100)) : 100} %`;
}
