// The endpoint's own verdict on a client, its token and its session, asked with a message that every endpoint can answer.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { nanoid } from 'nanoid'
import { isObject, type Message, paramsOf } from '../core/json-rpc.js'
import { FIRST_STATELESS_REVISION, parseRevision } from '../core/protocol-version.js'
import { headerOf } from '../http/guards.js'
import type { House } from '../http/house.js'
import { sendToEndpoint } from '../http/inject.js'

/** Milliseconds for which the endpoint's verdict is awaited. */
const PATIENCE = 10_000

/**
 * Asks the endpoint, and whatever guards it, whether it knows this client: `undefined` if so, else its refusal; `'none'` where it says nothing.
 * The message that the client has sent does not go there.
 */
export async function verdictOf(
  house: House,
  req: IncomingMessage,
  res: ServerResponse,
  message: Message
): Promise<IncomingMessage | 'none' | undefined> {
  const patience = new AbortController()
  const giveUp = (): void => patience.abort()
  const timer = setTimeout(giveUp, PATIENCE)
  res.once('close', giveUp)
  try {
    const answer = await sendToEndpoint(req, question(req, message), { signal: patience.signal })
    const { statusCode = 0 } = answer
    if (statusCode < 200 || statusCode > 299) return answer
    drain(answer)
    return undefined
  } catch (error) {
    house.debug('the endpoint gave no verdict: %o', error)
    return 'none'
  } finally {
    clearTimeout(timer)
    res.off('close', giveUp)
  }
}

/** `ping`, or from 2026-07-28 on `server/discover`, with what the client says of itself in each request. */
function question(req: IncomingMessage, message: Message): object {
  const id = `mcp-streams-${nanoid()}`
  const revision = parseRevision(headerOf(req, 'mcp-protocol-version'))
  if (revision === undefined || revision < FIRST_STATELESS_REVISION) return { jsonrpc: '2.0', id, method: 'ping' }
  const meta = paramsOf(message)['_meta']
  const ofProtocol = Object.entries(isObject(meta) ? meta : {}).filter(([key]) =>
    key.startsWith('io.modelcontextprotocol/')
  )
  return { jsonrpc: '2.0', id, method: 'server/discover', params: { _meta: Object.fromEntries(ofProtocol) } }
}

/** Reads an answer to its end, as the endpoint expects; one that has none is not waited for. */
function drain(answer: IncomingMessage): void {
  const timer = setTimeout(() => answer.destroy(), PATIENCE)
  timer.unref()
  answer.once('close', () => clearTimeout(timer))
  answer.on('error', () => undefined)
  answer.resume()
}
