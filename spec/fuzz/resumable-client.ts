// `callResumable` through the official client: a result that is collected, by whatever it takes.

import { McpError } from '@modelcontextprotocol/sdk/types.js'
import { callResumable, resumableFetch } from '../../lib/client/index.js'
import { connectV1 } from '../helpers/clients.js'
import * as client from './clients.js'
import type { ClientContext, End } from './clients.js'
import { Violation } from './oracle.js'

export async function followResumable(context: ClientContext): Promise<End> {
  const { plan, scenario, inbox, url, log } = context
  const [expected = ''] = inbox.pending
  const tagged: typeof fetch = async (input, init) => {
    const headers = new Headers(init?.headers)
    const isCall = String(init?.body).includes('"tools/call"')
    if (isCall) headers.set(client.CALL_HEADER, plan.key)
    try {
      const response = await fetch(input, { ...init, headers })
      log(`${plan.key}: ${init?.method ?? 'GET'} -> ${response.status}`)
      return response
    } catch (error) {
      log(`${plan.key}: ${init?.method ?? 'GET'} lost: ${(error as Error).message}`)
      throw error
    }
  }
  const ours = resumableFetch({
    fetch: tagged,
    minTimeout: 2,
    maxTimeout: 40,
    maxRetries: 30,
    idleTimeout: client.mayFallSilent(plan) ? client.PATIENCE : null
  })
  const auth =
    plan.owner === undefined ? {} : { headers: { authorization: `Bearer ${plan.owner}` } }
  const connecting = connectV1(url, { fetch: ours as never, version: '2025-11-25', ...auth })
  const connected = await connecting.catch((error: unknown) => {
    // Where there is no room, that may be lost too.
    if (scenario.isCalm) throw error
  })
  if (connected === undefined) return 'lost'
  try {
    const call = { method: 'tools/call', params: { name: 'play', arguments: { key: plan.key } } }
    const result = await callResumable(connected.client, call, { wait: 1000, timeout: 15_000 })
    inbox.take({ id: expected, result })
  } catch (error) {
    log(`${plan.key}: ${String(error)}`)
    if (error instanceof Violation) throw error
    if (!(error instanceof McpError)) return lost(context, error)
    inbox.take({
      id: expected,
      error: { code: error.code, message: error.message, data: error.data }
    })
  } finally {
    await connected.close()
  }
  return inbox.reasons.length > 0 ? 'error' : 'complete'
}

/** What was taken never breaks without an error. */
function lost({ plan, scenario }: ClientContext, error: unknown): End {
  if (scenario.isCalm && client.isStreamed(plan))
    throw new Violation(`${plan.key} (resumable): ${String(error)}`)
  return 'lost'
}
