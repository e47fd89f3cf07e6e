// What an operator is told once, on the console.
import type { InstanceParts } from './instance-parts.js'

let hasWarnedOfMissed = false

/** An endpoint has set headers on an answer whose head is ours. */
export function warnOfMissed(headers: readonly string[]): void {
  if (headers.length === 0 || hasWarnedOfMissed) return
  hasWarnedOfMissed = true
  process.emitWarning(
    `The endpoint has set ${headers.join(', ')} on an answer whose head had left already ` +
      '(option upgradeAfter)',
    { code: 'MCP_STREAMS_LATE_HEADER' }
  )
}

/** An endpoint numbers its events itself. */
export function warnOfIds(instance: InstanceParts): void {
  if (instance.hasWarnedOfIds) return
  instance.hasWarnedOfIds = true
  process.emitWarning(
    'The endpoint writes its own event ids, so its streams are left alone: remove its eventStore',
    { code: 'MCP_STREAMS_FOREIGN_IDS' }
  )
}
