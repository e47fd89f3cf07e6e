// `resumableFetch`, read as a transport of the official client reads it.

import { resumableFetch } from '../../lib/client/index.js'
import { BlockSplitter, isMessage } from '../helpers/blocks.js'
import { cancelled } from '../helpers/mcp.js'
import type { Json } from '../helpers/open-stream.js'
import * as client from './clients.js'
import type { ClientContext, End } from './clients.js'
import { requestId, Violation } from './oracle.js'

export async function followFetch(context: ClientContext): Promise<End> {
  const { plan, inbox, url, log } = context
  const headers = client.headersOf(plan)
  let isCall = false
  const ours = resumableFetch({
    fetch: async (input, init) => {
      const sent = new Headers(init?.headers)
      if (isCall) sent.set(client.CALL_HEADER, plan.key)
      try {
        const response = await fetch(input, { ...init, headers: sent })
        const method = init?.method ?? 'GET'
        log(
          `${plan.key}: ${method} ${String(input).slice(url.length)} ${sent.get('last-event-id') ?? ''} -> ${response.status}`
        )
        return response
      } catch (error) {
        log(`${plan.key}: ${init?.method ?? 'GET'} lost: ${(error as Error).message}`)
        throw error
      }
    },
    minTimeout: 2,
    maxTimeout: 40,
    maxRetries: 30,
    idleTimeout: client.mayFallSilent(plan) ? client.PATIENCE : null
  })
  const post = (body: Json, signal?: AbortSignal): Promise<Response> =>
    ours(url, { method: 'POST', headers, body: JSON.stringify(body), ...(signal && { signal }) })

  // The first answer shows what the server is; only then is a POST safe to repeat. Where there is no
  // room it passes untouched, and shows nothing.
  let isShown: boolean
  try {
    const first = await post(client.initializeBody(plan))
    isShown = first.headers.has('preference-applied')
    await first.text()
  } catch (error) {
    // Where there is no room, that may be lost too.
    if (context.scenario.isCalm) throw error
    return 'lost'
  }
  isCall = true
  const leaving = new AbortController()
  const asking: Promise<unknown>[] = []
  let hasLeft = false
  const take = (message: Json): void => {
    const question = inbox.take(message)
    if (question !== undefined)
      asking.push(post(client.answerTo(question)).then(response => response.text()))
    if (plan.leaves === undefined || inbox.isDone || inbox.count < plan.leaves.after || hasLeft)
      return
    hasLeft = true
    for (let index = 0; index < plan.requests && plan.leaves.how === 'cancel'; index++)
      asking.push(post(cancelled(requestId(plan, index))).then(response => response.text()))
    leaving.abort()
  }

  let response: Response
  // Nobody watches over what cannot be sent again.
  const patience = isShown ? undefined : setTimeout(() => leaving.abort(), client.PATIENCE * 10)
  try {
    response = await post(client.bodyOf(plan), leaving.signal)
  } catch (error) {
    if (client.isStreamed(plan) && context.scenario.isCalm)
      throw new Violation(`${plan.key} (fetch): ${String(error)}`)
    return 'lost'
  } finally {
    clearTimeout(patience)
  }
  const isTaken = response.headers.get('link')?.includes('rel="stream"') === true
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true
  // Nobody watches over what is not resumed.
  const silence =
    isTaken && isStream ? undefined : setTimeout(() => leaving.abort(), client.PATIENCE * 10)
  let fault: unknown
  try {
    if (isStream) {
      const splitter = new BlockSplitter(block => {
        if (fault !== undefined || hasLeft || !isMessage(block)) return
        try {
          take(JSON.parse(block.data!))
        } catch (error) {
          fault = error
        }
      })
      for await (const chunk of response.body!) splitter.feed(Buffer.from(chunk))
    } else {
      const text = await response.text()
      if (response.status !== 200) {
        inbox.refuse(String(response.status))
        return 'error'
      }
      const messages: Json = JSON.parse(text)
      for (const message of Array.isArray(messages) ? messages : [messages]) inbox.take(message)
    }
  } catch (error) {
    log(`${plan.key}: the body breaks: ${String(error)}`)
    if (error instanceof Violation) throw error
    if (fault === undefined && !hasLeft && !inbox.isDone) return lost(context, isTaken, error)
  } finally {
    clearTimeout(silence)
    await Promise.allSettled(asking)
  }
  if (fault !== undefined) throw fault
  if (hasLeft) return 'left'
  if (!isTaken) return 'bare'
  inbox.finish('the body ends')
  return inbox.reasons.length > 0 ? 'error' : 'complete'
}

/** What was taken never breaks without an error for each request. */
function lost({ plan }: ClientContext, isTaken: boolean, error: unknown): End {
  if (isTaken) throw new Violation(`${plan.key} (fetch): breaks without an error: ${String(error)}`)
  return 'lost'
}
