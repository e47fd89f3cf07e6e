// What an operator is told once, on the console.
import { inspect } from 'node:util'

const warned = new Set<string>()

function warnOnce(code: string, text: string, detail?: string): void {
  if (warned.has(code)) return
  warned.add(code)
  process.emitWarning(text, { code, detail })
}

/** In a timer or the like, where nothing else hears of the error. */
export function warnOfThrow(error: unknown): void {
  warnOnce(
    'MCP_STREAMS_FRONT_THREW',
    'Middleware in front of mcpStreams has thrown when a response was written, which is cut off',
    inspect(error)
  )
}

export function warnOfNoSocket(): void {
  warnOnce(
    'MCP_STREAMS_NO_SOCKET',
    'mcpStreams passes requests on untouched that have not come over a socket of Node, as behind ' +
      'a serverless adapter or in a test without a server: their streams cannot be resumed'
  )
}

export function warnOfMissed(headers: readonly string[]): void {
  if (headers.length === 0) return
  warnOnce(
    'MCP_STREAMS_LATE_HEADER',
    `The endpoint has set ${headers.join(', ')} on an answer whose head had left already ` +
      '(option upgradeAfter)'
  )
}
