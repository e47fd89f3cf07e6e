// A client that collects its answer in pieces, by the Resuming draft. What it is told on the way
// may come again.

import { setTimeout as sleep } from 'node:timers/promises'
import { callTool } from '../helpers/mcp.js'
import type { Json } from '../helpers/open-stream.js'
import * as client from './clients.js'
import type { ClientContext, End } from './clients.js'
import { areBodiesRead, Violation } from './oracle.js'

export async function followTokens({
  plan,
  scenario,
  inbox,
  url,
  log
}: ClientContext): Promise<End> {
  const [expected = ''] = inbox.pending
  let token: string | null = null
  for (let attempt = 0; attempt < client.MOST_REQUESTS; attempt++) {
    const id: string = token === null ? expected : `${expected}.${attempt}`
    const message: Json = callTool(id, 'play', { key: plan.key })
    message.params._meta = { resumeToken: token, 'express-mcp-streams/wait': 15 }
    const headers = {
      ...client.headersOf(plan),
      [client.CALL_HEADER]: plan.key,
      // At 2026-07-28 a key is heeded of a client that has announced itself.
      prefer: 'rel=stream',
      ...(token === null && { 'idempotency-key': `the-key-of-${plan.key}-with-tokens` })
    }
    const response = await client.tryOpen(url, { headers, body: message })
    log(`${plan.key}: POST with token ${token} -> ${response?.status ?? 'lost'}`)
    // An endpoint that breaks off and is not asked for a key breaks off each time.
    const isHopeless = !areBodiesRead(scenario) && attempt > plan.cuts.length
    if (response === undefined && isHopeless) return 'lost'
    if (response === undefined) continue
    const messages: Json[] = []
    if (client.isEventStream(response)) {
      await client.readBlocks(response, client.mayFallSilent(plan), received => {
        if (received !== undefined) messages.push(received)
        return received?.id === id
      })
    } else if (response.status === 200) {
      const whole = await client.readWhole(response)
      if (whole === undefined) continue
      messages.push(...whole)
    } else {
      inbox.refuse(await client.reasonOf(response))
      return 'error'
    }
    const last = messages.find(received => received.method === undefined)
    if (last === undefined) {
      // Of a body that was not read it is not known what it asks for, nor which error it is owed.
      if (!areBodiesRead(scenario)) return 'bare'
      await sleep(2)
      continue
    }
    if (last.id !== id)
      throw new Violation(`${plan.key} (tokens): a response to ${last.id} in place of ${id}`)
    const next = last.result?._meta?.nextResumeToken
    if (typeof next === 'string') {
      token = next
      continue
    }
    inbox.take({ ...last, id: expected })
    return inbox.reasons.length > 0 ? 'error' : 'complete'
  }
  throw new Violation(`${plan.key} (tokens): no end of requests`)
}
