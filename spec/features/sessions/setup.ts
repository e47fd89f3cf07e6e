// Sessions that outlive their process, or the endpoint's: their world, what becomes of them, and
// what their client sees.

import { expect } from '@jest/globals'
import { sessions, type SessionsOptions } from '../../../lib/features/sessions/index.js'
import type { SdkV1Endpoint } from '../../helpers/endpoints/sdk-v1.js'
import type { RawScript } from '../../helpers/endpoints/raw.js'
import { request, type RequestId } from '../../helpers/mcp.js'
import { tunable, type Word } from '../../helpers/talk/client.js'
import { named, result } from '../../helpers/talk/endpoint.js'
import { primer, type Talk } from '../../helpers/talk/index.js'
import type { Sent } from '../../helpers/talk/world.js'
import { forgetfulEndpoint, type ForgetfulEndpoint, type ForgetfulOptions } from './forgetful.js'

export const SECRET = 'a secret of this spec'
export const VERSION = '2025-11-25'

/** Sessions that outlive a process, in a session that its client has begun. */
export const surviving = (more: Partial<SessionsOptions> = {}) => ({
  session: 'its own',
  options: { sessions: sessions({ secret: SECRET, ...more }) }
})

/** An endpoint that `forget` makes forget: what it answers is the world's script. */
export const forgetful = (options: ForgetfulOptions = {}) => ({
  endpoint: [result],
  server: (answer: RawScript) => forgetfulEndpoint({ answer, ...options })
})

export const handlerOf = (talk: Talk) => talk.endpoint.handler as ForgetfulEndpoint

/** The endpoint's process is another one, or it has ended all sessions. */
export const forget: Word = talk => {
  const { known, close } = talk.endpoint.handler as Partial<ForgetfulEndpoint & SdkV1Endpoint>
  return known === undefined ? close!() : known.clear()
}

/** How many sessions the endpoint has. */
export const has = (count: number): Word =>
  named(`has(${count})`, ({ endpoint: { handler } }) => {
    const { known, sessions } = handler as Partial<ForgetfulEndpoint & SdkV1Endpoint>
    expect((known ?? sessions)!.size).toBe(count)
  })

/** Asks something short in its session, and reads the answer. */
export const list = tunable<Sent & { id?: RequestId }>(
  'list',
  async (talk, { id = 1, ...more }) => {
    const wire = await talk.send({ ...more, body: request(id, 'tools/list') })
    await wire.response.ended
  }
)

/** All at once, and waits for all. */
export const together =
  (...words: Word[]): Word =>
  talk =>
    Promise.all(words.map(word => word(talk)))

/** Whose first answer is that of another server session is told that lists may have changed. */
export const ANSWERED = [primer, 'result', 'end']
export const ANSWERED_ANEW = [primer, 'tools/list_changed', 'result', 'end']
/** What the endpoint hears of a session that is begun again. */
export const BEGIN = ['initialize', 'notifications/initialized']

export const statuses = ({ wires }: Talk): number[] => wires.map(({ response }) => response.status)

/** None of the answers has given the client another id. */
export const keepsItsId = ({ wires, headers }: Talk): void => {
  const own = headers['mcp-session-id']
  expect(own).toMatch(/^mcps1\./)
  for (const { response } of wires) expect(response.headers['mcp-session-id'] ?? own).toBe(own)
}
