// The check: each step once and in order, the tool run once, and the result what it is when no wire
// is in between.

import { isDeepStrictEqual } from 'node:util'
import { addDocument } from './search-index.js'

/** All that was lost, doubled or spoilt, in words; empty where nothing was. */
export function findFaults({ steps, result, error, executions }, documents) {
  const index = new Map()
  for (const document of documents) addDocument(index, document)
  const intact = isDeepStrictEqual(result?.structuredContent, Object.fromEntries(index))

  const lost = documents.map((_, i) => i + 1).filter(step => !steps.includes(step))
  const doubled = steps.filter((step, i) => steps.indexOf(step) < i)
  const faults = [
    lost.length > 0 && `lost ${list(lost)} of ${documents.length} steps`,
    doubled.length > 0 && `got ${list(doubled)} steps twice`,
    steps.some((step, i) => step < steps[i - 1]) && 'steps out of order',
    executions !== 1 && `the tool ran ${executions} times`,
    !intact && (result ? 'the result is spoilt' : `no result: ${error.message}`)
  ]
  return faults.filter(Boolean).join('; ')
}

/** `2 (#7, #8)`, or the count alone where there are many. */
function list(steps) {
  return steps.length > 3
    ? `${steps.length}`
    : `${steps.length} (${steps.map(step => `#${step}`).join(', ')})`
}
