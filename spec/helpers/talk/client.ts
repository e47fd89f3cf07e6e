// What the client of a conversation does, word by word.

import { expect, jest } from '@jest/globals'
import { inspect } from 'node:util'
import type { CloseOptions, McpStreamsStats } from '../../../lib/index.js'
import * as mcp from '../mcp.js'
import type { Json } from '../open-stream.js'
import { sleep } from '../sleep.js'
import { named } from './endpoint.js'
import { Talk, type Sent } from './world.js'

export { turn } from './endpoint.js'

export type Word = (talk: Talk) => unknown
/** Stands in a list as it is, or with what is special this time. */
export type Tunable<Options> = Word & ((options: Options) => Word)

export function tunable<Options extends object>(
  name: string,
  run: (talk: Talk, options: Partial<Options>) => unknown
): Tunable<Options> {
  const word = (first: Talk | Options): unknown => {
    if (first instanceof Talk) return run(first, {})
    const shown = inspect(first, { depth: 0, breakLength: Infinity })
    return named(`${name}(${shown})`, (talk: Talk) => run(talk, first))
  }
  return named(name, word as Tunable<Options>)
}

export interface Call extends Omit<Sent, 'message'> {
  id?: mcp.RequestId
  /** The arguments of the tool. */
  args?: object
  meta?: object | undefined
  /** In the place of a call. */
  message?: unknown
}

/** Calls a tool, under the id 1. */
export const post: Tunable<Call> = tunable('post', (talk, options) => {
  const { id = 1, args, meta, ...more } = options
  const { server = 'by hand', version, capabilities } = talk.world
  const call: Json = mcp.callTool(id, server === 'by hand' ? 'any' : 'context', args)
  if (meta !== undefined) call.params._meta = meta
  const isModern = (more.version ?? version) === '2026-07-28'
  const { message = isModern ? mcp.withEnvelope(call, capabilities) : call, ...sent } = more
  return talk.send({ ...(isModern && { message: call }), ...sent, body: message })
})

/** Any message, or what is made of the talk by then. */
export const send = (message: object | ((talk: Talk) => unknown), more: Sent = {}): Word =>
  named('send', talk =>
    talk.send({ ...more, body: typeof message === 'function' ? message(talk) : message })
  )

/** GET of the endpoint: a listen channel. */
export const listen: Tunable<Sent> = tunable('listen', (talk, options) => talk.send(options))

/** A request with another method. */
export const request = (method: string, more: Sent | ((talk: Talk) => Sent) = {}): Word =>
  named(method, talk => talk.send({ method, ...(typeof more === 'function' ? more(talk) : more) }))

/** Waits for so many more events: primers, messages. */
export const take = (n: number): Word =>
  named(`take(${n})`, async ({ wire }) => {
    await wire.opened
    while (wire.response.events.length < wire.read + n) await wire.response.next()
    wire.read += n
  })

/** Goes away, so that the server notices, or by silence so that it does not. */
export const cut: Tunable<{ by: 'fin' | 'rst' | 'silence' }> = tunable(
  'cut',
  async (talk, { by = 'fin' }) => {
    const { response, wire } = talk
    const connections = (): number =>
      talk.members.reduce((sum, { streams }) => sum + streams.stats().connections, 0)
    // The server may have ended it, and its client has not noticed yet.
    const before = Math.max(1, connections())
    wire.isLost = true
    if (response === undefined) return wire.leaving.abort()
    if (by === 'silence') return void response.pause()
    const wasOpen = response.ending === undefined
    if (by === 'fin') response.destroy()
    else response.reset()
    if (wasOpen) await talk.until(() => connections() < before)
  }
)

/** By the stream URL; by a GET of the endpoint, as stock clients. */
type Way = 'url' | 'endpoint'
export const WAYS: [name: string, by: Way][] = [
  ['the stream URL', 'url'],
  ['the endpoint', 'endpoint']
]

export interface Resume extends Sent {
  by?: Way
  /** The sequence of an event, an id in which ID is the stream's, or `null`: it names none. */
  after?: number | string | null
}

/** Comes back for its stream, with the last event id that it has. */
export const resume: Tunable<Resume> = tunable('resume', (talk, { by = 'url', after, ...more }) => {
  const lastEventId = talk.cursorAt(after)
  return talk.send({ ...(by === 'url' && { url: talk.link }), lastEventId, ...more })
})

/** What a human says. */
export const yes = (id: mcp.RequestId, name = 'Ada') =>
  mcp.result(id, { action: 'accept', content: { name } })

/** Hands answers over to the stream URL. */
export const answer = (...ids: mcp.RequestId[]): Word =>
  named(`answer(${ids.join(', ')})`, talk =>
    talk.send({ url: talk.link, body: ids.map(id => yes(id)) })
  )

/** Posts an answer to the endpoint, as ever. */
export const reply = (id: mcp.RequestId): Word =>
  named(`reply(${id})`, talk => talk.send({ body: yes(id) }))

/** Cancels its call. */
export const cancel: Tunable<Sent & { id?: mcp.RequestId }> = tunable(
  'cancel',
  (talk, { id = 1, ...more }) => talk.send({ ...more, body: mcp.cancelled(id) })
)

/** DELETE of the stream URL. */
export const drop: Tunable<Sent> = tunable('drop', (talk, more) =>
  talk.send({ method: 'DELETE', url: talk.link, ...more })
)

/** Goes on without waiting for the response of this word to begin. */
export const meanwhile = (word: Word): Word =>
  named(`meanwhile ${word.name}`, talk => {
    void Promise.resolve(word(talk)).catch(() => undefined)
  })

/** Waits for the end of its response. */
export const end: Word = async ({ wire }) => {
  await wire.opened
  await wire.response.ended
}

/** Lets the endpoint go on to its next `hold`, or to its end. */
export const go: Tunable<{ run: number }> = tunable('go', async (talk, { run }) => {
  const runs = talk.runs
  await (run === undefined ? (runs.at(-1) ?? (await runs.nth(1))) : await runs.nth(run + 1)).go()
})

/** What `stats()` says by now. */
export const counts = (expected: Partial<McpStreamsStats>): Word =>
  named('counts', talk => expect(talk.stats()).toMatchObject(expected))

/** Waits for what nobody announces. */
export const until = (condition: (talk: Talk) => boolean): Word =>
  named('until', talk => talk.until(() => condition(talk)))

/** Waits until so many requests have come to the endpoint's script. */
export const arrived = (n: number): Word => named(`arrived(${n})`, ({ runs }) => runs.nth(n))

/** Waits until the endpoint has seen its response close. */
export const closed: Word = ({ call }) => call.closed

/** Some time, where the clock goes on. */
export const wait = (ms: number): Word => named(`wait(${ms})`, () => sleep(ms))

/** So much time passes, where the clock is stopped. */
export const pass = (ms: number): Word =>
  named(`pass(${ms})`, () => void jest.advanceTimersByTime(ms))

/** Words about an earlier wire, from 0. */
export const on = (wire: number, ...words: Word[]): Word =>
  named(`on(${wire})`, async talk => {
    talk.on = wire
    try {
      await talk.plays(...words)
    } finally {
      talk.on = undefined
    }
  })

/** Another process in the place of the first, which knows nothing; who was connected is cut off. */
export const restart: Word = talk => {
  for (const wire of talk.wires) wire.isLost ||= wire.ending === undefined
  talk.server.closeAllConnections()
  return talk.start()
}

/** Shuts the middleware down. */
export const close = (options?: CloseOptions): Word =>
  named('close', talk => talk.streams.close(options))
