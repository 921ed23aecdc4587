// Shapes of what the server says; nothing is run from here.

/**
 * @typedef {[number, number]} Pair  (p, q)
 * @typedef {[number, number, number, number]} Block  first p, last p, first q, last q: every pair p < q of these steps
 * @typedef {[number, number, number, number, number]} About  first p, last p, first q, last q, weight
 * @typedef {{columns: number, perSheet: number, count: number, width: number, height: number, cells: number[]}} Sprites
 * @typedef {{
 *   version: string, annotated: boolean, pairs: [number, number, number][], origins: [number, number, string][],
 *   about: [number, number, number, number, number, number, number][],
 *   rejected: [string, number, number][], note: string, flagged: boolean, canUndo: boolean, canRedo: boolean
 * }} EditState  `about`: p, q, and what is known less of that pair
 * @typedef {{name: string, heights: number[][], values: number[][]}} Curves  one list of T numbers for each line
 * @typedef {{
 *   episode: number, length: number, words: string, seed: number, success: boolean, steps: number[], sprites: Sprites,
 *   curves: Curves[], state: EditState, draft: import("./draft.js").Draft
 * }} Episode  `words`: its task as the data set that it came from put it, or nothing
 * @typedef {{
 *   name: string, title: string, kind: string, actions: string[], lengths: number[], annotator: string,
 *   annotators: string[], sources: {name: string, title: string}[], recommended: [number, string][], launch: string, annotated: number[], flagged: number[],
 *   first: string, folder: string
 * }} Dataset  `recommended`: demonstrations to annotate first, in order, each with the reason
 * @typedef {{
 *   kind: string, pairs?: Pair[], source?: string, multiplicity?: number, text?: string, flagged?: boolean,
 *   counts?: number[], about?: (About | null)[], blocks?: Block[]
 * }} Edit
 * @typedef {{p: number, q: number, weight: number, count: number, about: About | null, reason: string}} Suggestion
 * @typedef {{q: number, reason: string}} Deciding  a step that needs a memory; of what is not known
 */
export {};
