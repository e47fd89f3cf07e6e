// Forwards a request for something that another instance has.
import { parseEventId } from '../protocol/event-id.js'
import { requestIdsIn } from '../protocol/json-rpc.js'
import { primerText } from '../protocol/sse-writer.js'
import { readAhead } from '../endpoint/read-ahead.js'
import { debugElsewhere } from '../endpoint/refusals.js'
import { canAnswer } from '../endpoint/reply.js'
import { goneMeanwhile } from './owner-gone.js'
import { RelayedResponse } from './relay-out.js'
import type { Context, Relay } from './route.js'

/** Forwards a request whose body, if it has one, was not read. */
export function relayHead(context: Context, relay: Relay, tag: string): void {
  send(context, relay, tag, undefined)
}

/** Forwards a request whose body was read. */
export function relayBody(context: Context, relay: Relay, tag: string): void {
  send(context, relay, tag, textOf(context))
}

/**
 * Reads the body, and then forwards the request. If the other instance is lost, the JSON-RPC
 * requests in the body say which calls are lost with it.
 */
export function readAndRelay(context: Context, relay: Relay, tag: string): void {
  readAhead(context.req, {
    ...context.bodyLimits,
    known: body => {
      context.learn(body)
      send(context, relay, tag, textOf(context))
    }
  })
}

function send(context: Context, relay: Relay, tag: string, body: string | undefined): void {
  const { instance, req, res, messages } = context
  if (!canAnswer(res)) return
  const { debug, maxBodyBytes } = instance
  debugElsewhere(context, 'sent to %s', tag)
  const gone = (): void =>
    void goneMeanwhile(context, relay.link, tag).catch(() => {
      res.destroy()
    })
  new RelayedResponse(req, res, {
    relay,
    tag,
    maxBodyBytes,
    debug,
    body,
    primer: primerOf(context),
    requestIds: requestIdsIn(messages),
    gone
  }).begin()
}

/** A primer with the event id that the client has sent; empty if there is none to repeat. */
function primerOf({ lastEventId = '', profile: { primer } }: Context): string {
  if (primer === 'none' || parseEventId(lastEventId) === undefined) return ''
  return primerText(primer, lastEventId, null)
}

function textOf({ text, body }: Context): string | undefined {
  return text ?? (body === undefined ? undefined : JSON.stringify(body))
}
