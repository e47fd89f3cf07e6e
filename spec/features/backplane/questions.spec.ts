// Questions to a client that answers at another instance than the one that has asked.

import { describe, expect, it } from '@jest/globals'
import type { RawCall } from '../../helpers/endpoints/raw.js'
import { ended, get, headersFor, request, result } from '../../helpers/mcp.js'
import { until } from '../../helpers/happenings.js'
import { openStream, type OpenStream } from '../../helpers/open-stream.js'
import { anywhere, at, gist, lastId, note, VERSION, type Anywhere } from './setup.js'

const question = request('q', 'elicitation/create', { message: 'Who?', requestedSchema: {} })
const given = { action: 'accept', content: { name: 'me' } }
const answer = (url: string, headers = headersFor({ version: VERSION })) =>
  openStream(url, { method: 'POST', body: [result('q', given)], headers })

/** What the endpoint of the first instance was answered. */
const answersAt = ({ endpoints }: Anywhere) =>
  endpoints.map(({ requests }) => requests.filter(({ message }) => message?.id === 'q').length)

/** A call that has asked, and whose client has been told that it is its turn. */
async function asked(all: Anywhere): Promise<{ first: OpenStream; call: RawCall; link: string }> {
  const made = await all.call({ prefer: 'rel=stream' })
  made.call.emit(question)
  expect(await made.first.ended).toBe('end')
  return made
}

describe('a question of another instance', () => {
  it('is answered at the stream URL, and the next turn comes from there', async () => {
    const all = await anywhere()
    const { first, call, link } = await asked(all)
    expect(first.messages().at(-1)).toMatchObject({ id: 'q', method: 'elicitation/create' })
    const headers = headersFor({ lastEventId: lastId(first) })
    expect((await get(at(link, all, 1), headers)).status).toBe(204)
    const second = await answer(at(link, all, 1))
    expect(second.status).toBe(200)
    expect(second.headers.link).toMatch(/~\d+>; rel="stream"$/)
    call.emit(note('two'))
    call.result()
    await second.ended
    expect(gist(second)).toEqual(['two', 1])
    expect(answersAt(all)).toEqual([1, 0, 0])
  })

  it('is answered twice, at two instances, and the first answer counts', async () => {
    const all = await anywhere()
    const { call, link } = await asked(all)
    const second = await answer(at(link, all, 1))
    second.destroy()
    const third = await answer(at(link, all, 2))
    call.result()
    await third.ended
    expect(gist(third)).toEqual([1])
    expect(answersAt(all)).toEqual([1, 0, 0])
  })

  it('is refused at the stream URL as at its own instance, and stays open', async () => {
    const all = await anywhere()
    const { call, link } = await asked(all)
    const wrong = await openStream(at(link, all, 1), {
      method: 'POST',
      body: [result('other', given)],
      headers: headersFor({ version: VERSION })
    })
    const home = await openStream(link, {
      method: 'POST',
      body: [result('other', given)],
      headers: headersFor({ version: VERSION })
    })
    await Promise.all([wrong.ended, home.ended])
    expect([wrong.status, wrong.text]).toEqual([home.status, home.text])
    expect(wrong.status).toBe(400)
    const right = await answer(at(link, all, 2))
    call.result()
    await right.ended
    expect(gist(right)).toEqual([1])
  })

  it('is handed off while that instance leaves', async () => {
    const all = await anywhere({ retry: 10, resumeInterval: { min: 0 } })
    const { first, call, link } = await all.call({ prefer: 'rel=stream' })
    call.emit(note('one'))
    await first.nextMessage()
    const closed = all.members[0]!.streams.close()
    expect(await first.ended).toBe('end')
    const second = await get(at(link, all, 1), headersFor({ lastEventId: lastId(first) }))
    call.emit(question)
    expect(await second.ended).toBe('end')
    await until(() => all.members[0]!.streams.stats().waiting === 1)
    const third = await answer(at(link, all, 2))
    call.result()
    await third.ended
    expect(gist(third)).toEqual([1])
    await closed
  })
  it('is answered again once that instance has gone: what its call came to is the next turn', async () => {
    const all = await anywhere()
    const { call, link } = await asked(all)
    const second = await answer(at(link, all, 1))
    second.destroy()
    await until(() => all.members[0]!.streams.stats().connections === 0)
    call.emit(note('two'))
    call.result()
    await all.members[0]!.streams.close()
    const third = await ended(answer(at(link, all, 2)))
    expect([third.status, gist(third)]).toEqual([200, ['q', 'two', 1]])
    const others = await ended(answer(at(link, all, 2), headersFor({ auth: 'another' })))
    expect(others.status).toBe(410)
    expect(answersAt(all)).toEqual([1, 0, 0])
  })
})
