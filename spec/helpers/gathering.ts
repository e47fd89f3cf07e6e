// Calls that are over in their first tick are gathered; a spec may have it otherwise.

const BOUND = Symbol.for('express-mcp-streams.most-gathered')

/** For instances that are made from now on. `undefined`: as it is by default; 0: never. */
export function gatherAtMost(bytes: number | undefined): void {
  const bounds = globalThis as { [BOUND]?: number | undefined }
  if (bytes === undefined) delete bounds[BOUND]
  else bounds[BOUND] = bytes
}

// `GATHERING=off npm run spec -- spec/features`: all that holds for one way holds for the other.
if (process.env['GATHERING'] === 'off') gatherAtMost(0)
