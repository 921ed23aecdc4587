// Numbers of demonstrations as text: "0-249,300".

/** @param {Iterable<number>} numbers @returns {string} */
export function formatRanges(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  const parts = [];
  for (let start = 0; start < sorted.length; ) {
    let end = start;
    while (end + 1 < sorted.length && sorted[end + 1] === sorted[end] + 1) end += 1;
    parts.push(start === end ? String(sorted[start]) : `${sorted[start]}-${sorted[end]}`);
    start = end + 1;
  }
  return parts.join(",");
}

/** Call `each` with every number of `text` that is below `count`; what is no range is left out. @param {string} text @param {number} count @param {(number: number) => void} each */
export function eachInRanges(text, count, each) {
  for (const part of text.split(",")) {
    const found = /^\s*(\d+)\s*(?:[-–]\s*(\d+)?)?\s*$/.exec(part);
    if (!found) continue;
    const last = found[2] ? Number(found[2]) : /[-–]/.test(part) ? count - 1 : Number(found[1]);
    for (let number = Number(found[1]); number <= Math.min(last, count - 1); number++) each(number);
  }
}
