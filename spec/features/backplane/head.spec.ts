// The head of an event stream that comes from another instance leaves with the first bytes behind
// it: a stock client that is cut off between them forgets where it was.

import { expect, it } from '@jest/globals'
import type { Hub } from '../../helpers/backplane/memory.js'
import { ended, get, headersFor, post, request } from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { anywhere, at, gist, lastId, note, VERSION } from './setup.js'

/** A head is larger than what else is said for a resumed stream that has nothing new. */
const HEAD = 300

/**
 * What is said behind the head of the next response does not arrive, until `release`. `behind`:
 * something is held back.
 */
function holdBack(hub: Hub) {
  const { publish } = hub
  const held: (() => void)[] = []
  let asked: string | undefined
  let hasHead = false
  const behind = new Promise<void>(resolve => {
    hub.publish = (channel, message) => {
      const send = (): void => publish.call(hub, channel, message)
      if (hasHead && channel !== asked) return resolve(void held.push(send))
      send()
      if (message.length <= HEAD) return
      // The request comes first, and goes the other way.
      asked ??= channel
      hasHead = channel !== asked
    }
  })
  const release = (): void => {
    hub.publish = publish
    for (const send of held) send()
  }
  return { behind, release }
}

it('the head of a forwarded response is sent in one message with the first bytes of its body', async () => {
  const all = await anywhere({}, { lease: 600_000 })
  const { first, call, link } = await all.call()
  call.emit(note('one'))
  await first.nextMessage()
  first.destroy()
  const { behind, release } = holdBack(all.hub)
  let isThere = false
  const headers = headersFor({ version: VERSION, lastEventId: lastId(first) })
  const resumed = get(at(link, all, 1), headers)
  void resumed.then(() => (isThere = true))
  await behind
  // As soon as this is answered, a head that had left would have come.
  await ended(post(all.urls[1] as string, request(9, 'ping'), headersFor({})))
  expect(isThere).toBe(false)
  release()
  call.result()
  await ended(resumed)
  expect(gist(await resumed)).toEqual([1])
})

it('the head of a forwarded response is sent alone where no bytes follow soon', async () => {
  const all = await anywhere({}, { lease: 600_000 })
  const { first, call, link } = await all.call()
  first.destroy()
  const { release } = holdBack(all.hub)
  const resumed = await get(at(link, all, 1))
  expect([resumed.status, resumed.text]).toEqual([200, ''])
  expect(resumed.headers['content-type']).toBe('text/event-stream')
  release()
  call.result()
})

it('the head of a forwarded response has the names of its headers as the other instance writes them', async () => {
  const all = await anywhere()
  const { first, call, link } = await all.call()
  first.destroy()
  const [here, away] = await Promise.all([0, 1].map(i => get(at(link, all, i))))
  const namesOf = ({ rawHeaders }: OpenStream) => rawHeaders.filter((_, i) => i % 2 === 0).sort()
  expect(namesOf(away!)).toEqual(namesOf(here!))
  expect(namesOf(away!)).toContain('Content-Type')
  call.result()
})

it('a head that one chunk has no room for gets 502, and costs its call nothing', async () => {
  const all = await anywhere()
  for (const { server } of all.members) Object.assign(server, { maxHeaderSize: 256 * 1024 })
  const { first, call, link } = await all.call()
  call.emit(note('one'))
  await first.nextMessage()
  first.destroy()
  const headers = headersFor({ version: VERSION, lastEventId: lastId(first) })
  const refused = get(at(link, all, 1), { ...headers, 'x-large': 'x'.repeat(100 * 1024) })
  expect((await ended(refused)).status).toBe(502)
  const resumed = get(at(link, all, 1), headers)
  call.result()
  await ended(resumed)
  expect(gist(await resumed)).toEqual([1])
})
