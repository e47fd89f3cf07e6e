// What a client had just been given when its instance left: where the wire has lost it, there is
// nobody left there to ask, so the other instances have it.

import { expect, it } from '@jest/globals'
import { callTool, ended, get, headersFor, post, request, result } from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { tokenOf } from '../resume-tokens/setup.js'
import { answerOf } from '../tasks/setup.js'
import { anywhere, at, gist, lastId, note, VERSION, type Anywhere } from './setup.js'

const CALL = callTool(1, 'any')
const keyed = {
  ...headersFor({ version: VERSION, prefer: 'rel=stream' }),
  'idempotency-key': 'a-key-that-nobody-guesses'
}
const runs = ({ endpoints }: Anywhere): number[] => endpoints.map(({ calls }) => calls.length)

it.each([
  ['before it left', true],
  ['while it was leaving', false]
])('a stream that ended %s', async (_when, isBefore) => {
  const all = await anywhere()
  const { first, call, link } = await all.call()
  call.emit(note('one'))
  await first.nextMessage()
  const lastEventId = lastId(first)
  const closing = isBefore ? undefined : all.members[0]!.streams.close()
  call.emit(note('two'))
  call.result()
  await first.ended
  await (closing ?? all.members[0]!.streams.close())
  const again = await ended(get(at(link, all, 1), headersFor({ lastEventId })))
  expect(gist(again)).toEqual(['two', 1])
  expect(runs(all)).toEqual([1, 0, 0])
})

it.each([
  ['as a stream, before it left', true, true],
  ['as a stream, while it was leaving', true, false],
  ['as JSON, before it left', false, true],
  ['as JSON, while it was leaving', false, false]
])('an answer to a call under a key, given %s', async (_how, isStream, isBefore) => {
  const all = await anywhere()
  const sent = post(all.urls[0]!, CALL, keyed)
  const call = await all.endpoints[0]!.calls.nth(1)
  if (isStream) call.open()
  const closing = isBefore ? undefined : all.members[0]!.streams.close()
  if (isStream) call.result()
  else
    call.res
      .writeHead(200, { 'Content-Type': 'application/json' })
      .end(JSON.stringify(result(1, {})))
  await ended(sent)
  await (closing ?? all.members[0]!.streams.close())
  const again = await ended(post(all.urls[1]!, CALL, keyed))
  expect([again.status, again.text]).toEqual([200, expect.stringContaining('"id":1')])
  expect(again.text).not.toContain('owner-gone')
  expect(runs(all)).toEqual([1, 0, 0])
})

it('an answer to a request with a resume token, given before it left', async () => {
  const all = await anywhere({ resumeTokens: {} })
  const report = async (i: number, id: number, resumeToken: string | null): Promise<OpenStream> => {
    const wait = resumeToken === null ? 0 : 10_000
    const params = { name: 'report', _meta: { resumeToken, 'express-mcp-streams/wait': wait } }
    return post(all.urls[i]!, request(id, 'tools/call', params), headersFor({ version: VERSION }))
  }
  const token = tokenOf(await answerOf(await report(0, 1, null)))
  const call = await all.endpoints[0]!.calls.nth(1)
  const asked = report(0, 2, token)
  call.emit(note('one'))
  const given = await asked
  await given.nextMessage()
  call.result()
  expect(await answerOf(given)).toEqual(result(2, {}))
  await all.members[0]!.streams.close()
  expect(await answerOf(await report(1, 3, token))).toEqual(result(3, {}))
  expect(runs(all)).toEqual([1, 0, 0])
})
