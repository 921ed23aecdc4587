// Shapes of what the server says; nothing is run from here.

/**
 * @typedef {[number, number]} Pair  (p, q)
 * @typedef {{columns: number, rows: number, width: number, height: number, cells: number[]}} Sprites
 * @typedef {{
 *   version: string, annotated: boolean, pairs: [number, number, number][], origins: [number, number, string][],
 *   rejected: [string, number, number][], note: string, flagged: boolean, canUndo: boolean, canRedo: boolean
 * }} EditState
 * @typedef {{name: string, heights: number[][], values: number[][]}} Curves  one list of T numbers for each line
 * @typedef {{
 *   episode: number, length: number, seed: number, success: boolean, steps: number[], sprites: Sprites, curves: Curves[],
 *   state: EditState
 * }} Episode
 * @typedef {{
 *   name: string, title: string, kind: string, actions: string[], lengths: number[], annotator: string,
 *   annotators: string[], sources: {name: string, title: string}[], launch: string, annotated: number[], flagged: number[]
 * }} Dataset
 * @typedef {{
 *   kind: string, pairs?: Pair[], source?: string, multiplicity?: number, text?: string, flagged?: boolean
 * }} Edit
 * @typedef {{p: number, q: number, weight: number}} Suggestion
 */
export {};
