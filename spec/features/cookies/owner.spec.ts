// Whose stream it is, by cookie: what is signed for this mount reads, everything else is nobody's,
// and nothing but GET is let in by it.

import { describe, expect, it } from '@jest/globals'
import cookieParser from 'cookie-parser'
import signature from 'cookie-signature'
import { nanoid } from 'nanoid'
import type { IncomingMessage } from 'node:http'
import supertest from 'supertest'
import { get, headersFor, post } from '../../helpers/mcp.js'
import { openStream } from '../../helpers/open-stream.js'
import { streamId, streamUrl } from '../../helpers/serve.js'
import { rawExchange } from '../who/raw-exchange.js'
import { ALICE, BOB, cookieOf, NEWS, SECRET, serveCookies, setCookies, VERSION } from './setup.js'

const KEPT = { Connection: 'close' }

describe('the cookie of an owner', () => {
  it('reads its streams, from their start and after an event', async () => {
    const { call, streams } = await serveCookies()
    const { own, cookie } = await call(ALICE)
    const resumed = await get(own, { Cookie: cookie })
    expect(resumed.status).toBe(200)
    expect(await resumed.nextMessage()).toEqual(NEWS)
    const again = await get(own, {
      Cookie: `theme=dark; ${cookie}; other=1`,
      'Last-Event-ID': resumed.blocks.at(-1)!.id!
    })
    expect(again.status).toBe(200)
    expect((await get(own, ALICE)).status).toBe(200)
    expect(streams.stats()).toMatchObject({ resumes: 3, refusals: 0 })
    expect((await openStream(own, { method: 'HEAD', headers: { Cookie: cookie } })).status).toBe(
      200
    )
  })

  it("resumes at the endpoint's own URL, as official clients do", async () => {
    const { call, url, endpoint } = await serveCookies()
    const { response, cookie } = await call(ALICE)
    const resumed = await get(url, {
      Cookie: cookie,
      'Last-Event-ID': response.blocks[0]!.id!,
      Accept: 'text/event-stream'
    })
    expect(await resumed.nextMessage()).toEqual(NEWS)
    expect(endpoint.calls).toHaveLength(1)
  })

  it('is asked for only where the owner function gives nobody', async () => {
    const { call } = await serveCookies()
    const alice = await call(ALICE)
    const bob = await call(BOB)
    await supertest(alice.own)
      .get('')
      .set({ ...BOB, Cookie: alice.cookie })
      .expect(404)
    expect((await get(bob.own, { ...BOB, Cookie: alice.cookie })).status).toBe(200)
    await supertest(bob.own).get('').set({ Cookie: alice.cookie }).expect(404)
  })

  it.each([undefined, '', null, Promise.resolve(undefined), Promise.resolve('')])(
    'is asked for when that gives %p',
    async none => {
      const owner = ({ headers }: IncomingMessage) => headers.authorization ?? (none as undefined)
      const { call } = await serveCookies(undefined, { owner })
      const { own, cookie } = await call(ALICE)
      expect((await get(own, { Cookie: cookie })).status).toBe(200)
    }
  )

  it.each(['Jürgen Großmann 🙂', 'a b;c,d"e\\f\r\n', '\ud800', ' ', '0', 'x'.repeat(2000)])(
    'carries %p',
    async owner => {
      const { call } = await serveCookies(undefined, {
        owner: req => (req.headers.authorization === undefined ? '' : owner)
      })
      const { own, cookie } = await call(ALICE)
      expect(cookie).toMatch(/^mcp-streams=[\w%.~-]+$/)
      expect((await get(own, { Cookie: cookie })).status).toBe(200)
    }
  )

  it('is none for an owner that no browser would keep', async () => {
    const { call } = await serveCookies(undefined, { owner: () => 'x'.repeat(4000) })
    expect((await call()).cookie).toBe('')
  })

  it('does not keep a browser from what is nobody’s', async () => {
    const { call } = await serveCookies()
    const { cookie } = await call(ALICE)
    const nobodys = await call()
    expect((await get(nobodys.own, { Cookie: cookie })).status).toBe(200)
    await supertest(nobodys.own).get('').set(ALICE).expect(404)
  })

  it('lets nothing act: no call, no answer, no cancellation', async () => {
    const { call, url } = await serveCookies()
    const { own, cookie, response } = await call(ALICE)
    await supertest(own).delete('').set({ Cookie: cookie }).expect(404)
    await supertest(own).post('').set({ Cookie: cookie }).send([]).expect(404)
    // Nor does a POST to the endpoint get what is the owner's: its stream is nobody's.
    const opened = await call({ Cookie: cookie })
    expect((await get(opened.own)).status).toBe(200)
    await supertest(opened.own).get('').set(ALICE).expect(404)
    const poll = (headers: Record<string, string>) =>
      post(
        url,
        { jsonrpc: '2.0', id: 9, method: 'stream/poll/all' },
        { ...headersFor({ version: VERSION }), ...headers }
      )
    const [byCookie, byOwner] = await Promise.all([poll({ Cookie: cookie }), poll(ALICE)])
    await Promise.all([byCookie.ended, byOwner.ended])
    expect(byOwner.text).toContain(streamId(response))
    expect(byCookie.text).not.toContain(streamId(response))
    expect(response.ending).toBeUndefined()
  })

  it('does not attach to a call by its key', async () => {
    const { call, endpoint } = await serveCookies()
    const key = { 'Idempotency-Key': nanoid() }
    const { cookie } = await call({ ...ALICE, ...key })
    await call({ Cookie: cookie, ...key })
    expect(endpoint.calls).toHaveLength(2)
  })
})

describe('a cookie that is not of our making', () => {
  it('gets the same answer as no cookie, byte for byte', async () => {
    const { call } = await serveCookies()
    const { own, cookie } = await call(ALICE)
    const { cookie: foreign } = await (
      await serveCookies({ secret: 'the secret of others' })
    ).call(ALICE)
    const [name, value = ''] = cookie.split('=')
    const text = decodeURIComponent(value)
    const signed = text.slice(2, text.lastIndexOf('.'))
    const tampered = [
      ['without a signature', `s:${signed}`],
      ['unsigned', signed],
      ['with no value', ''],
      [
        'with another owner',
        text.replace(/ [^.]+/, ` ${Buffer.from('"bob"').toString('base64url')}`)
      ],
      ['with a changed signature', text.slice(0, -1) + (text.endsWith('A') ? 'B' : 'A')],
      ['with a shortened one', text.slice(0, -1)],
      ['signed with the secret itself', `s:${signature.sign(signed, SECRET)}`],
      ['of another path', text.replace('/mcp', '/mcq')],
      ['oversized', `${text}${'x'.repeat(8000)}`],
      ['of nonsense', 's:%00%ff.%'],
      ['JSON', 'j:{"a":1}']
    ].map(([what, changed]) => [what, `${name}=${encodeURIComponent(changed!)}`])
    const cases = [
      ...tampered,
      ['foreign', foreign],
      ['bad encoding', `${name}=%zz`],
      ['rubbish', ';;=;__proto__=1; ="']
    ]
    const none = await rawExchange(own, 'GET', KEPT)
    expect(none).toMatch(/^HTTP\/1\.1 404 /)
    for (const [what, changed] of cases)
      expect([what, await rawExchange(own, 'GET', { ...KEPT, Cookie: changed! })]).toEqual([
        what,
        none
      ])
    expect((await get(own, { Cookie: cookie })).status).toBe(200)
  })

  it("is also one that the application's own cookie-parser signs", async () => {
    const secret = 'shared with the application'
    const { call, url } = await serveCookies(
      { secret },
      {
        inFront: [
          cookieParser(secret),
          (req, res, next) => {
            const { theme } = req.query
            if (typeof theme === 'string') res.cookie('mcp-streams', theme, { signed: true })
            if (theme === undefined) return next()
            res.json({ signed: req.signedCookies as unknown })
          }
        ]
      }
    )
    const { own, cookie } = await call(ALICE)
    const value = decodeURIComponent(cookie.split('=')[1]!)
    // Whatever a client makes the application sign, even the very text of our cookie, is not ours.
    const theme = value.slice(2, value.lastIndexOf('.'))
    const themed = await get(`${url}?theme=${encodeURIComponent(theme)}`)
    expect(cookieOf(themed)).toContain('mcp-streams=s%3A')
    await supertest(own)
      .get('')
      .set({ Cookie: cookieOf(themed) })
      .expect(404)
    // And ours means nothing to the application.
    const read = await get(`${url}?theme=x`, { Cookie: cookie })
    expect(await read.json()).toEqual({ signed: { 'mcp-streams': false } })
    expect((await get(own, { Cookie: cookie })).status).toBe(200)
  })

  it('is one of another mount, with the same secret and owner', async () => {
    const { call } = await serveCookies()
    const { cookie } = await call(ALICE)
    const other = await serveCookies(undefined, {
      owner: req => (req.headers.cookie === undefined ? 'alice' : undefined)
    })
    await supertest((await other.call()).own)
      .get('')
      .set({ Cookie: cookie })
      .expect(404)
  })
})

describe('secrets', () => {
  it('rotate: the first signs, all are tried, and what was signed with an old one is renewed', async () => {
    const old = await serveCookies({ secret: 'the secret before it' })
    const { cookie } = await old.call(ALICE)
    const rotating = await serveCookies({
      secret: ['a new secret of ours', 'the secret before it']
    })
    const { own, cookie: renewed } = await rotating.call({ ...ALICE, Cookie: cookie })
    expect(renewed).toMatch(/^mcp-streams=/)
    expect(renewed).not.toBe(cookie)
    expect((await get(own, { Cookie: cookie })).status).toBe(200)
    expect((await get(own, { Cookie: renewed })).status).toBe(200)

    const rotated = await serveCookies({ secret: 'a new secret of ours' })
    const { own: later } = await rotated.call(ALICE)
    await supertest(later).get('').set({ Cookie: cookie }).expect(404)
    expect((await get(later, { Cookie: renewed })).status).toBe(200)
  })
})

describe('a page of another origin', () => {
  it('is not let in by the cookie', async () => {
    const { call, url, endpoint, streams } = await serveCookies()
    const { own, cookie } = await call(ALICE)
    const headers = { Cookie: cookie, Origin: 'https://evil.example' }
    await supertest(own).get('').set(headers).expect(403)
    // What a foreign page opens by GET is nobody's, as it would be without the cookie.
    const opened = await get(url, {
      ...headers,
      ...headersFor({ version: VERSION, accept: 'text/event-stream' })
    })
    expect(opened.status).toBe(200)
    expect(endpoint.calls).toHaveLength(2)
    expect(streams.stats().resumes).toBe(0)
    expect((await get(streamUrl(opened, url))).status).toBe(200)
  })

  it('is where it is allowed', async () => {
    const { call } = await serveCookies(undefined, { allowedOrigins: ['https://app.example'] })
    const { own, cookie } = await call(ALICE)
    expect((await get(own, { Cookie: cookie, Origin: 'https://app.example' })).status).toBe(200)
  })
})

it('has no cookies by default', async () => {
  const { call } = await serveCookies()
  const { cookie } = await call(ALICE)
  const plain = await serveCookies(undefined, { cookie: undefined })
  const { own, response } = await plain.call(ALICE)
  expect(setCookies(response)).toEqual([])
  await supertest(own).get('').set({ Cookie: cookie }).expect(404)
})
