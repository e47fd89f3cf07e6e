// Many sessions that are to be begun again at one time: no owner's stand in front of another's, and
// nobody waits for longer than a client does.

import { describe, expect, it } from '@jest/globals'
import { request as httpRequest } from 'node:http'
import { sessions } from '../../../lib/features/sessions/index.js'
import { forgetfulEndpoint } from './forgetful.js'
import { gate } from '../../helpers/gate.js'
import { until } from '../../helpers/happenings.js'
import { ended, initializeSession, post, request } from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { serve } from '../../helpers/serve.js'
import { sleep } from '../../helpers/sleep.js'

const VERSION = '2025-11-25'
const LIST = request(1, 'tools/list')

/** So many sessions of each owner, which the endpoint has forgotten; `held` holds `initialize`. */
async function forgotten(
  owners: Record<string, number>,
  options: object = {},
  slow: () => unknown = () => undefined
) {
  let held = gate()
  held.open()
  let hasForgotten = false
  const endpoint = forgetfulEndpoint({
    initialize: () => held.opened.then(() => (hasForgotten ? slow() : undefined))
  })
  const { url, streams } = await serve(endpoint, {
    sessions: sessions({ secret: 'a secret of this spec' }),
    ...options
  })
  const begun: Record<string, Record<string, string>[]> = {}
  for (const [owner, count] of Object.entries(owners)) {
    const auth = { Authorization: `Bearer ${owner}` }
    const all = Array.from({ length: count }, () => initializeSession(url, VERSION, auth))
    begun[owner] = (await Promise.all(all)).map(({ headers }) => ({ ...headers, ...auth }))
  }
  endpoint.known.clear()
  hasForgotten = true
  held = gate()
  const before = endpoint.calls.length
  /** Who has asked for `initialize` since. */
  const initializing = () =>
    endpoint.calls
      .slice(before)
      .filter(({ message }) => message?.method === 'initialize')
      .map(({ req }) => req.headers.authorization?.slice(7))
  const lists = () =>
    endpoint.calls.slice(before).filter(({ message }) => message?.method === 'tools/list')
  const refused = () => lists().length
  const ask = (owner: string): Promise<OpenStream>[] =>
    begun[owner]!.map(headers => ended(post(url, LIST, headers)))
  return { url, streams, begun, ask, initializing, lists, refused, go: () => held.open() }
}

const statuses = async (answers: Promise<OpenStream>[]) =>
  (await Promise.all(answers)).map(({ status }) => status)
const all = (status: number, count: number) => Array<number>(count).fill(status)

describe('sessions that are to be begun again at one time', () => {
  it('are all answered where one owner has 200 of them', async () => {
    const { ask, go, initializing, streams } = await forgotten({ a: 200 })
    const answers = ask('a')
    await until(() => initializing().length === 32)
    go()
    expect(await statuses(answers)).toEqual(all(200, 200))
    expect(streams.stats().revivals).toBe(200)
  })

  it('are begun owner by owner in turn', async () => {
    const { ask, go, initializing, refused } = await forgotten({ a: 100, b: 3 })
    const many = ask('a')
    await until(() => refused() === 100)
    const few = ask('b')
    await until(() => refused() === 103)
    go()
    expect(await statuses([...few, ...many])).toEqual(all(200, 103))
    const turns = initializing().slice(32, 40).join('')
    expect(turns.slice(0, turns.lastIndexOf('b') + 1)).toMatch(/^a?bababa?b?$|^a?babab$/)
  })

  it('cost nothing where their clients have gone', async () => {
    const { begun, url, ask, go, initializing, lists, refused } = await forgotten({ a: 80, b: 1 })
    const leaving = begun['a']!.map(headers => {
      const type = { 'Content-Type': 'application/json' }
      const sent = httpRequest(url, {
        method: 'POST',
        agent: false,
        headers: { ...headers, ...type }
      })
      sent.on('error', () => undefined).end(JSON.stringify(LIST))
      return sent
    })
    await until(() => refused() === 80)
    for (const sent of leaving) sent.destroy()
    await Promise.all(lists().map(({ closed }) => closed))
    const answers = ask('b')
    await until(() => refused() === 81)
    go()
    expect(await statuses(answers)).toEqual([200])
    expect(initializing().filter(owner => owner === 'a')).toHaveLength(32)
  })

  it('are refused where one owner has more than there is room for, and others are not', async () => {
    const { ask, go, refused } = await forgotten({ a: 80, b: 5 }, { maxStreams: 30 })
    const many = ask('a')
    await until(() => refused() === 80)
    const few = ask('b')
    await until(() => refused() === 85)
    go()
    expect(await statuses(few)).toEqual(all(200, 5))
    const answers = await Promise.all(many)
    const told = answers.filter(({ status }) => status === 503)
    expect(told).toHaveLength(80 - 32 - 25)
    expect(told.every(({ headers }) => Number(headers['retry-after']) > 0)).toBe(true)
  })

  it('are told to come back after half a minute', async () => {
    const slow = () => sleep(16_000)
    const { ask, go, streams } = await forgotten({ a: 70 }, {}, slow)
    go()
    const answers = await Promise.all(ask('a'))
    const told = answers.filter(({ status }) => status === 503)
    expect(told).toHaveLength(70 - 2 * 32)
    expect(told.every(({ headers }) => Number(headers['retry-after']) > 0)).toBe(true)
    expect(streams.stats().revivals).toBe(2 * 32)
  })
})
