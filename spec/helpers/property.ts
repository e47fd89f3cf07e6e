// Property-based specs: by chance on the machine of somebody who changes something, and the same
// each time in CI, where what has nothing to do with a change must not fail it.

import fc from 'fast-check'

/**
 * Where chance begins. Default: always at the same place in CI, else anywhere; a property that
 * fails prints it.
 */
const SEED = process.env['SEED'] ?? (process.env['CI'] ? '1' : undefined)
/** `TIMES=10` tries each property ten times as often. */
const TIMES = Number(process.env['TIMES'] ?? 1)

/** How often a property is tried. */
export const times = (usual: number): number => Math.ceil(usual * TIMES)

fc.configureGlobal({ numRuns: times(100), ...(SEED !== undefined && { seed: Number(SEED) }) })

export { fc }
