// What an operator is told once, on the console.
import { inspect } from 'node:util'

let hasWarnedOfMissed = false
let hasWarnedOfThrow = false
let hasWarnedOfNoSocket = false

/** In a timer or the like, where nothing else hears of the error. */
export function warnOfThrow(error: unknown): void {
  if (hasWarnedOfThrow) return
  hasWarnedOfThrow = true
  process.emitWarning(
    'Middleware in front of mcpStreams has thrown when a response was written, which is cut off',
    { code: 'MCP_STREAMS_FRONT_THREW', detail: inspect(error) }
  )
}

export function warnOfNoSocket(): void {
  if (hasWarnedOfNoSocket) return
  hasWarnedOfNoSocket = true
  process.emitWarning(
    'mcpStreams passes requests on untouched that have not come over a socket of Node, as behind ' +
      'a serverless adapter or in a test without a server: their streams cannot be resumed',
    { code: 'MCP_STREAMS_NO_SOCKET' }
  )
}

export function warnOfMissed(headers: readonly string[]): void {
  if (headers.length === 0 || hasWarnedOfMissed) return
  hasWarnedOfMissed = true
  process.emitWarning(
    `The endpoint has set ${headers.join(', ')} on an answer whose head had left already ` +
      '(option upgradeAfter)',
    { code: 'MCP_STREAMS_LATE_HEADER' }
  )
}
