// Redirect mode: 302 to where the bytes are, with no credentials and no bytes of ours.

import { describe, expect, it } from '@jest/globals'
import { errorOf, serveResources, whole } from './setup.js'

const TARGET = 'https://storage.example/c/report.pptx?sv=2024&sig=a%2Fb'

describe('a redirect', () => {
  it.each([
    ['a string', TARGET],
    ['a URL', new URL(TARGET)]
  ])('by %s is a 302 that may not be cached', async (_kind, redirect) => {
    const { ask } = await serveResources(() => ({ redirect }))
    const response = await whole(ask('onedrive:///documents/quarterly-report.pptx'))
    expect([response.status, response.text]).toEqual([302, ''])
    expect(response.headers).toMatchObject({
      location: TARGET,
      'mcp-resource-uri': 'onedrive:///documents/quarterly-report.pptx',
      'cache-control': 'no-store',
      'content-length': '0'
    })
    for (const name of ['content-type', 'content-disposition', 'accept-ranges'])
      expect(response.headers[name]).toBeUndefined()
  })

  it('is a redirect in download mode as well', async () => {
    const { ask } = await serveResources({
      open: () => ({ redirect: TARGET }),
      mode: 'download',
      publicUrl: 'https://mcp.example/mcp'
    })
    expect((await whole(ask('a:1'))).status).toBe(302)
  })

  it('keeps to the limit of the client', async () => {
    const { ask } = await serveResources(() => ({ redirect: TARGET, size: 11 }), {
      capabilities: { resourceStreaming: { maxStreamSize: 10 } }
    })
    expect(await errorOf(ask('a:1'))).toMatchObject({ code: -32004 })
  })

  it('is not for a client that takes no bytes', async () => {
    const { ask } = await serveResources(() => ({ redirect: TARGET }))
    expect(
      await errorOf(ask('a:1', { accept: 'application/json, text/event-stream' }))
    ).toMatchObject({ code: -32003 })
  })

  it.each([
    '/elsewhere',
    'storage.example/x',
    'javascript:alert(1)',
    'file:///etc/passwd',
    'data:,x',
    ''
  ])('to %j is an internal error of the provider', async redirect => {
    const { ask, errors } = await serveResources(() => ({ redirect }))
    expect(await errorOf(ask('a:1'))).toMatchObject({ code: -32603 })
    expect(errors).toMatchObject([{ cause: { message: expect.stringContaining('`redirect`') } }])
  })

  it('cannot inject header fields', async () => {
    const { ask } = await serveResources(() => ({
      redirect: 'https://storage.example/a\r\nSet-Cookie: a=b'
    }))
    const { status, headers } = await whole(ask('a:1'))
    expect([status, headers['set-cookie']]).toEqual([302, undefined])
  })
})
