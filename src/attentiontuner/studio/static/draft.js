// What an edit makes of a demonstration, before the server has saved it: the page shows it at once.

/**
 * @typedef {import("./types.js").EditState} EditState
 * @typedef {import("./types.js").Edit} Edit
 * @typedef {import("./types.js").Pair} Pair
 * @typedef {import("./types.js").Block} Block
 */

/** One number for a pair; pairs in the order of these numbers are in order of (q, p). @param {number} p @param {number} q */
export const keyOf = (p, q) => q * 2 ** 24 + p;

/** How many pairs p < q a block holds. @param {Block} block */
export function sizeOf([p, pLast, q, qLast]) {
  let size = 0;
  for (let later = q; later <= qLast; later++) size += Math.max(0, Math.min(pLast, later - 1) - p + 1);
  return size;
}

/** Every pair p < q of the blocks. @param {Block[]} blocks @returns {Pair[]} */
export function inside(blocks) {
  /** @type {Pair[]} */
  const pairs = [];
  for (const [p, pLast, q, qLast] of blocks)
    for (let later = q; later <= qLast; later++)
      for (let early = p; early <= Math.min(pLast, later - 1); early++) pairs.push([early, later]);
  return pairs;
}

/** The state after an edit that is neither undo nor redo; null where nothing changes. @param {EditState} state @param {Edit} edit @returns {EditState | null} */
function applied(state, edit) {
  const next = changed(state, edit);
  return next && { ...state, ...next, canUndo: true, canRedo: false };
}

/** @param {EditState} state @param {Edit} edit @returns {Partial<EditState> | null} */
function changed(state, edit) {
  switch (edit.kind) {
    case "add":
      return adding(state, edit);
    case "remove":
      return removing(state, edit);
    case "count": {
      const [p, q] = (edit.pairs ?? [])[0];
      const now = state.pairs.find((row) => row[0] === p && row[1] === q);
      if (!now || now[2] === edit.multiplicity) return null;
      return { pairs: state.pairs.map((row) => (row === now ? [p, q, edit.multiplicity ?? 1] : row)) };
    }
    case "nothing":
      return state.annotated && !state.pairs.length ? null : { annotated: true, pairs: [], origins: [], about: [] };
    case "clear":
      return state.annotated || state.rejected.length ? { annotated: false, pairs: [], origins: [], about: [], rejected: [] } : null;
    case "note":
      return edit.text === state.note ? null : { note: edit.text ?? "" };
    case "flag":
      return edit.flagged === state.flagged ? null : { flagged: edit.flagged ?? false };
    case "reject": {
      const there = new Set(state.rejected.map(String));
      const fresh = (edit.pairs ?? []).map(([p, q]) => /** @type {[string, number, number]} */ ([edit.source ?? "", p, q])).filter((entry) => !there.has(String(entry)));
      return fresh.length ? { rejected: [...state.rejected, ...fresh] } : null;
    }
  }
  return null;
}

/** @param {EditState} state @param {Edit} edit @returns {Partial<EditState> | null} */
function adding(state, edit) {
  const there = new Set(state.pairs.map(([p, q]) => keyOf(p, q)));
  /** @type {EditState["pairs"]} */ const rows = [];
  /** @type {EditState["about"]} */ const about = [];
  const add = (/** @type {Pair} */ [p, q], /** @type {number} */ place) => {
    if (there.has(keyOf(p, q))) return;
    there.add(keyOf(p, q));
    rows.push([p, q, edit.counts?.[place] ?? 1]);
    const known = edit.about?.[place];
    if (known) about.push([p, q, ...known]);
  };
  (edit.pairs ?? []).forEach(add);
  inside(edit.blocks ?? []).forEach((pair) => add(pair, -1));
  if (!rows.length) return null;
  const fresh = new Set(rows.map(([p, q]) => keyOf(p, q)));
  const { source } = edit;
  return {
    annotated: true,
    pairs: [...state.pairs, ...rows].sort((a, b) => keyOf(a[0], a[1]) - keyOf(b[0], b[1])),
    about: [...state.about, ...about],
    origins: source ? [...state.origins, ...rows.map(([p, q]) => /** @type {[number, number, string]} */ ([p, q, source]))] : state.origins,
    rejected: state.rejected.filter(([, p, q]) => !fresh.has(keyOf(p, q))),
  };
}

/** @param {EditState} state @param {Edit} edit @returns {Partial<EditState> | null} */
function removing(state, edit) {
  const unwanted = new Set([...(edit.pairs ?? []), ...inside(edit.blocks ?? [])].map(([p, q]) => keyOf(p, q)));
  const gone = (/** @type {any[]} */ row) => unwanted.has(keyOf(row[0], row[1]));
  if (!state.pairs.some(gone)) return null;
  const turnedDown = state.origins.filter(gone).map(([p, q, source]) => /** @type {[string, number, number]} */ ([source, p, q]));
  const stays = (/** @type {any[]} */ row) => !gone(row);
  return {
    pairs: state.pairs.filter(stays),
    about: state.about.filter(stays),
    origins: state.origins.filter(stays),
    rejected: [...state.rejected, ...turnedDown],
  };
}

/** One demonstration as it is saved, and as it is shown while changes are on their way. */
export class Draft {
  /** @param {EditState} saved */
  constructor(saved) {
    this.saved = this.state = saved;
    this.waiting = 0;
    /** @type {EditState[]} */ this.past = [];
    /** @type {EditState[]} */ this.future = [];
  }

  /** Show an edit; whether there is anything to save. @param {Edit} edit */
  try(edit) {
    const undoing = edit.kind === "undo";
    if (undoing || edit.kind === "redo") {
      if (!(undoing ? this.state.canUndo : this.state.canRedo)) return false;
      const [from, to] = undoing ? [this.past, this.future] : [this.future, this.past];
      const other = from.pop();
      // After a reload only the server knows what came before: its answer will show it.
      if (other) {
        to.push(this.state);
        this.state = undoing ? { ...other, canRedo: true } : { ...other, canUndo: true, canRedo: from.length > 0 };
      }
    } else {
      const next = applied(this.state, edit);
      if (!next) return false;
      this.past.push(this.state);
      this.future = [];
      this.state = next;
    }
    this.waiting += 1;
    return true;
  }

  /** A change was saved. @param {EditState} state what is saved now */
  answered(state) {
    this.waiting = Math.max(0, this.waiting - 1);
    this.saved = state;
    if (!this.waiting) this.state = state;
  }

  /** What is saved was looked at anew, or a change was refused: nothing is on its way any more. @param {EditState} state */
  reset(state) {
    this.saved = this.state = state;
    this.waiting = 0;
    this.past = [];
    this.future = [];
  }
}
