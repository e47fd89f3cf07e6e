// Who can write to Redis, and knows no secret: what they say is dropped and counted, and changes
// nothing.

import { expect, it } from '@jest/globals'
import { Hub } from '../../helpers/backplane/memory.js'
import { until } from '../../helpers/happenings.js'
import { ended, get, headersFor, post, request } from '../../helpers/mcp.js'
import { anywhere, at, gist, lastId, note, VERSION, type Anywhere } from './setup.js'

const TAG = 5

/** A call of the first instance that a client follows at the second, with one message behind it. */
async function relayed() {
  const all = await anywhere({}, { lease: 60_000 })
  const made = await all.call()
  made.first.destroy()
  const follower = await get(at(made.link, all, 1))
  made.call.emit(note('one'))
  await follower.nextMessage()
  return { ...made, all, follower }
}

const dropped = ({ members }: Anywhere, name: 'forged' | 'replayed' | 'version' | 'malformed') =>
  members.reduce((sum, { streams }) => sum + streams.stats().backplane![name]!, 0)

/** Says it again to whoever hears it, or to another channel. */
const say = (hub: Hub, channel: string, message: Uint8Array): void =>
  hub.publish(channel, Uint8Array.from(message))

/** How many instances hear what one of three says. */
const hearers = (channel: string): number => (channel === 'c:*' ? 2 : 1)
const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0)

it('repeated messages of the backplane are ignored', async () => {
  const { all, call, follower } = await relayed()
  const heard = [...all.hub.heard]
  for (const { channel, message } of heard) say(all.hub, channel, message)
  const wanted = sum(heard.map(({ channel }) => hearers(channel)))
  await until(() => dropped(all, 'replayed') === wanted)
  call.emit(note('two'))
  call.result()
  await follower.ended
  expect(gist(follower)).toEqual(['one', 'two', 1])
  expect(dropped(all, 'forged')).toBe(0)
})

it('messages to one instance are ignored by others, and under another sender', async () => {
  const { all, call, follower } = await relayed()
  const heard = [...all.hub.heard]
  const channels = [...new Set(heard.map(({ channel }) => channel))]
  let wanted = 1
  for (const { channel, message } of heard)
    for (const other of channels.filter(one => one !== channel)) {
      say(all.hub, other, message)
      wanted += hearers(other)
    }
  const renamed = Buffer.from(heard.at(-1)!.message)
  renamed.write('aaaaa', 0, 'latin1')
  say(all.hub, heard.at(-1)!.channel, renamed)
  await until(() => dropped(all, 'forged') === wanted)
  call.result()
  await follower.ended
  expect(gist(follower)).toEqual(['one', 1])
})

it('messages of another release and invalid ones are dropped', async () => {
  const { all, call, follower } = await relayed()
  const { channel, message } = all.hub.heard.at(-1)!
  const older = Buffer.from(message)
  older[TAG] = 0
  say(all.hub, channel, older)
  for (const length of [0, 1, TAG, TAG + 1, 40]) say(all.hub, channel, new Uint8Array(length))
  say(all.hub, channel, message.subarray(0, -1))
  const large = Buffer.alloc(32 * 1024 * 1024, 1)
  large.set(message)
  say(all.hub, channel, large)
  await until(() => dropped(all, 'forged') === 2)
  expect([dropped(all, 'version'), dropped(all, 'malformed')]).toEqual([1, 5])
  call.result()
  await follower.ended
  expect(gist(follower)).toEqual(['one', 1])
})

it('values in Redis that no instance has written count as absent', async () => {
  const all = await anywhere({}, { lease: 400 })
  const { first, call, link } = await all.call()
  first.destroy()
  await until(() => all.members[0]!.streams.stats().connections === 0)
  call.emit(note('one'))
  call.result()
  await all.members[0]!.streams.close()
  const { keys } = all.hub
  const results = [...keys].filter(([key]) => key.startsWith('r:'))
  expect(results).toHaveLength(1)
  for (const [key, entry] of results) {
    const changed = Buffer.from(entry.value)
    changed[30]! ^= 1
    keys.set(key, { ...entry, value: changed })
  }
  const lost = await get(at(link, all, 1), headersFor({}))
  expect(lost.status).toBe(410)
  // Nor is the value of one key good under another one.
  const streamId = new URL(link).searchParams.get('stream')
  for (const [key, entry] of [...keys]) if (key.startsWith('i:')) keys.set(results[0]![0], entry)
  const poll = await ended(
    post(all.urls[1]!, request(7, 'stream/poll', { streamId }), headersFor({ version: VERSION }))
  )
  expect(JSON.parse(poll.text).error.data.reason).toBe('owner-gone')
})

it('tokens, sessions and messages are encrypted on the backplane', async () => {
  const all = await anywhere()
  const { first, call, link } = await all.call({ authorization: 'Bearer a-secret-token' })
  call.emit(note('a private message'))
  await first.nextMessage()
  first.destroy()
  const auth = 'a-secret-token'
  const second = await get(at(link, all, 1), headersFor({ auth, lastEventId: lastId(first) }))
  call.result({ content: 'a private result' })
  await second.ended
  const said = [
    ...all.hub.heard.map(({ message }) => message),
    ...[...all.hub.keys].flatMap(([key, { value }]) => [Buffer.from(key), value])
  ].map(bytes => Buffer.from(bytes).toString('latin1'))
  for (const secret of ['a-secret-token', 'private', 'Bearer', 'jsonrpc'])
    expect(said.filter(text => text.includes(secret))).toEqual([])
})
