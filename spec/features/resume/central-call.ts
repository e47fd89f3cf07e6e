// The call of the central test: 20 events of mixed sizes, one of 200 KB, some of them not ASCII.

import { currentStream } from '../../../lib/index.js'
import { gate } from '../../helpers/gate.js'
import { rawEndpoint, type RawCall, type RawEndpoint } from '../../helpers/endpoints/raw.js'
import { callTool, headersFor, notification, result } from '../../helpers/mcp.js'
import type { WireRequest } from './wire.js'

/** 200 KB, and characters of two to four bytes all over it. */
const BIG = `漢€ü😀${'x'.repeat(1012)}`.repeat(200)
const TEXTS = [
  '',
  'a',
  'häh?',
  '€',
  '😀😀',
  'data: x',
  'id: 7',
  '\n\n',
  'plain words',
  'ظل',
  '漢字かな交じり文',
  '\u2028',
  '\ufeff',
  '"\\"'
]

/** The 20 messages, the big one at position `bigAt` (from 1), the result last. */
function centralMessages(bigAt: number): object[] {
  const messages: object[] = []
  for (let n = 1; n < 20; n++) {
    const text = n === bigAt ? BIG : TEXTS[n % TEXTS.length]
    messages.push(notification('notifications/message', { level: 'info', data: `${n} ${text}` }))
  }
  return [...messages, result('central', { content: [{ type: 'text', text: 'größer' }] })]
}

/**
 * How the endpoint writes: all in one go, so that its stream is finished when the wire is cut, or
 * one per turn of the loop.
 */
export type Pace = 'in one go' | 'turn by turn'

export interface CentralEndpoint extends RawEndpoint {
  /** The messages, as they stand in the `data` of their events. */
  data: string[]
  /** Stream ids by the value of the request header `x-call`. */
  ids: Map<string, string>
  /** Executions by the same. */
  executions: Map<string, number>
}

export function centralEndpoint(pace: Pace): CentralEndpoint {
  // Behind the big event, what else is written lies in the log until the socket has room; how it is
  // then cut into chunks would depend on timing if it were more than one event.
  const data = centralMessages(pace === 'in one go' ? 9 : 19).map(message =>
    JSON.stringify(message)
  )
  const blocks = data.map(text => Buffer.from(`data: ${text}\n\n`))
  const ids = new Map<string, string>()
  const executions = new Map<string, number>()
  const script = async (call: RawCall): Promise<void> => {
    const name = String(call.req.headers['x-call'])
    ids.set(name, currentStream()!.id)
    executions.set(name, (executions.get(name) ?? 0) + 1)
    for (const block of blocks) {
      call.write(block)
      if (pace === 'in one go') continue
      const turn = gate()
      setImmediate(turn.open)
      await turn.opened
    }
    call.res.end()
  }
  return Object.assign(rawEndpoint(script, { stateless: true }), { data, ids, executions })
}

/** The request of a call with this name. */
export const centralRequest = (
  name: string
): WireRequest & { headers: Record<string, string> } => ({
  method: 'POST',
  headers: {
    ...headersFor({ version: '2025-11-25', accept: 'application/json, text/event-stream' }),
    'x-call': name
  },
  body: callTool('central', 'any')
})
