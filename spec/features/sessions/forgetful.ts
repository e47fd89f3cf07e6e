// A hand-written endpoint with sessions, which may forget them while it runs.

import { randomUUID } from 'node:crypto'
import { errorResponse, result as resultOf } from '../../helpers/mcp.js'
import { rawEndpoint, type RawCall, type RawEndpoint } from '../../helpers/endpoints/raw.js'

export interface ForgetfulEndpoint extends RawEndpoint {
  /** The ids of those that it knows. */
  known: Set<string>
  /** What it does with requests that it knows the session of, but for `ping`. */
  answer: (call: RawCall) => unknown
  /** The status with which it refuses what comes in a session that it does not know. */
  unknownIs: number
  /** Messages and methods of requests, in the order in which they came. */
  log: () => string[]
}

export interface ForgetfulOptions {
  readonly unknownIs?: number
  /** Default: answers with an empty result. */
  readonly answer?: (call: RawCall) => unknown
  /** Called before it takes it, which it does unless that has answered. */
  readonly initialize?: (call: RawCall) => unknown
}

export function forgetfulEndpoint(options: ForgetfulOptions = {}): ForgetfulEndpoint {
  const known = new Set<string>()
  const json = ({ res }: RawCall, status: number, body: object): void => {
    res.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body))
  }
  const begin = async (call: RawCall): Promise<void> => {
    await options.initialize?.(call)
    if (call.res.headersSent) return
    const id = randomUUID()
    known.add(id)
    call.res.setHeader('Mcp-Session-Id', id)
    const { protocolVersion } = call.message.params
    return json(
      call,
      200,
      resultOf(call.message.id, {
        protocolVersion,
        capabilities: { tools: { listChanged: true } },
        serverInfo: { name: 'forgetful', version: '1.0.0' }
      })
    )
  }
  const endpoint: RawEndpoint = rawEndpoint(call => {
    const { message, req, res } = call
    const session = req.headers['mcp-session-id']?.toString() ?? ''
    if (message?.method === 'initialize') return begin(call)
    if (!known.has(session))
      return json(call, made.unknownIs, errorResponse(null, -32000, 'No valid session'))
    if (req.method === 'DELETE') {
      known.delete(session)
      return void res.writeHead(200).end()
    }
    const isRequest = message?.id !== undefined && message.method !== undefined
    if (req.method === 'POST' && !isRequest) return void res.writeHead(202).end()
    if (message?.method === 'ping') return json(call, 200, resultOf(message.id, {}))
    return made.answer(call)
  })
  const made: ForgetfulEndpoint = Object.assign(endpoint, {
    known,
    unknownIs: options.unknownIs ?? 404,
    answer: options.answer ?? ((call: RawCall) => call.result()),
    log: () => endpoint.calls.map(({ req, message }) => String(message?.method ?? req.method))
  })
  return made
}
