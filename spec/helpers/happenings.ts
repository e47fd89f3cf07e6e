// What happens inside the middleware, as a spec can wait for it: by its diagnostics channels, or by
// a condition.

import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import type { IncomingMessage, Server } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { DiagnosticName, StreamMessage } from '../../lib/index.js'
import { closeLater } from './close-all.js'
import { Awaitable } from './gate.js'

/** All that a channel says from now on, of every instance: `await happenings('resumed').nth(2)`. */
export function happenings(name: DiagnosticName): Awaitable<StreamMessage> {
  const messages = new Awaitable<StreamMessage>()
  const listener = (message: unknown) => void messages.push(message as StreamMessage)
  subscribe(`mcp-streams:${name}`, listener)
  closeLater(() => unsubscribe(`mcp-streams:${name}`, listener))
  return messages
}

/** For what nobody announces, such as the end of a socket on the other side. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await sleep(1)
}

/** The next request has arrived at a server, whole, and what is in front has seen what it is. */
export async function arrival(server: Server): Promise<void> {
  const [req] = (await once(server, 'request')) as [IncomingMessage]
  await until(() => req.readableEnded)
  await new Promise(setImmediate)
}
