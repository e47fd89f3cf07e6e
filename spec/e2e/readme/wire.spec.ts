// The exchanges that the pages show are what happens on the wire.

import { describe, expect, it } from '@jest/globals'
import { resources } from '../../../lib/resources/index.js'
import { rawEndpoint } from '../../helpers/endpoints/raw.js'
import { ended, get, headersFor, initialize, post } from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { serve, streamId, streamUrl } from '../../helpers/serve.js'
import { page } from './markdown.js'

const httpOf = (file: string): string[] =>
  page(file)
    .fences.filter(({ language }) => language === 'http')
    .map(({ code }) => code.replace(/ +# .*$/gm, ''))

describe('the exchange', () => {
  const [first, second] = httpOf('lib/protocol/README.md')
  const [third] = httpOf('examples/elicitation/README.md')
  const [, id] = /stream=([\w-]{21})>/.exec(first!)!

  /** Head lines and body of the response in a fence. */
  function answerIn(fence: string): { head: string[]; body: string } {
    const [head, ...blocks] = fence.slice(fence.indexOf('HTTP/1.1 200')).trim().split('\n\n')
    return { head: head!.split('\n').slice(1), body: `${blocks.join('\n\n')}\n\n` }
  }

  function expectAsWritten(
    response: OpenStream,
    { head, body }: { head: string[]; body: string },
    actualId = streamId(response)
  ): void {
    for (const line of head) {
      const [, name, value] = /^([^:]+): (.*)$/.exec(line)!
      expect([name, String(response.headers[name!.toLowerCase()]).replace(actualId, id!)]).toEqual([
        name,
        value
      ])
    }
    expect(response.text.replaceAll(actualId, id!)).toBe(body)
  }

  it('is what happens on the wire', async () => {
    const dataOf = (fence: string): unknown => JSON.parse(/^data: (\{.*)$/m.exec(fence)![1]!)
    const endpoint = rawEndpoint(({ emit }) => emit(dataOf(first!)))
    const { url } = await serve(endpoint)
    const call = JSON.parse(/^\{.*$/m.exec(first!)![0])
    const headers = headersFor({ version: /^MCP-Protocol-Version: (.*)$/m.exec(first!)![1] })

    const cut = await post(url, call, headers)
    await cut.take(2)
    cut.destroy()
    expectAsWritten(cut, answerIn(first!))

    const lastEventId = /^Last-Event-ID: \S+(\.\d+)$/m.exec(second!)![1]!
    const resumed = await get(streamUrl(cut, url), {
      ...headers,
      'last-event-id': streamId(cut) + lastEventId
    })
    endpoint.calls[0]!.emit(dataOf(second!))
    endpoint.calls[0]!.res.end()
    await resumed.ended
    expectAsWritten(resumed, answerIn(second!))
  })

  it('of a hand-off is, too', async () => {
    const [asking, posting] = third!.split('\n\nPOST ')
    const answer = JSON.parse(/^\[\{.*$/m.exec(posting!)![0])
    const question = { jsonrpc: '2.0', id: answer[0].id, method: 'elicitation/create', params: {} }
    const answers: unknown[] = []
    const endpoint = rawEndpoint(({ message, res, emit }) => {
      if (message.method === 'tools/call') return emit(question)
      answers.push(message)
      res.writeHead(202).end()
      endpoint.calls[0]!.emit(JSON.parse(/^data: (\{.*)$/m.exec(posting!)![1]!))
      return endpoint.calls[0]!.res.end()
    })
    const { url } = await serve(endpoint)
    const announced = headersFor({ version: '2025-11-25', prefer: 'rel=stream' })
    const call = await ended(post(url, JSON.parse(/^\{.*$/m.exec(first!)![0]), announced))

    const lastEventId = /^Last-Event-ID: (\S+)$/m.exec(asking!)![1]!
    expect(call.blocks.at(-1)!.id).toBe(lastEventId.replace(id!, streamId(call)))
    const resumed = await get(streamUrl(call, url), {
      ...announced,
      'last-event-id': call.blocks.at(-1)!.id!
    })
    expect(`HTTP/1.1 ${resumed.status} No Content`).toBe(asking!.split('\n').at(-1))

    const next = await ended(post(streamUrl(call, url), answer, announced))
    expectAsWritten(next, answerIn(posting!), streamId(call))
    expect(answers).toEqual(answer)
  })
})

describe('the exchange about a resource', () => {
  it('is what happens on the wire', async () => {
    const [exchange] = httpOf('examples/files/README.md')
    const [question, call, head, body] = exchange!.trim().split('\n\n')
    const headersIn = (text: string) =>
      Object.fromEntries(
        [...text.matchAll(/^([\w-]+): (.*)$/gm)].map(([, name, value]) => [
          name!.toLowerCase(),
          value!
        ])
      )
    const endpoint = rawEndpoint(call => call.result(), { session: '1f0c' })
    const { url } = await serve(endpoint, {
      resources: resources({ open: () => ({ body: Buffer.from('hello world') }) })
    })
    await ended(post(url, initialize('2025-11-25', { resourceStreaming: {} })))
    const response = await ended(post(url, JSON.parse(call!), headersIn(question!)))
    const { 'content-type': type, ...expected } = headersIn(head!)
    expect(`HTTP/1.1 ${response.status} ${response.response.statusMessage}`).toBe(
      head!.split('\n')[0]
    )
    expect(response.headers).toMatchObject({ 'content-type': type, ...expected })
    expect(response.text).toBe(body)
  })
})

describe('the exchange with a resume token', () => {
  it('is what happens on the wire', async () => {
    const code = httpOf('examples/report/README.md')[0]!
    const messages = [...code.matchAll(/^\{.*$/gm)].map(([json]) => JSON.parse(json))
    const heads = code.split('\n\n').filter(part => part.startsWith('HTTP/1.1'))
    const endpoint = rawEndpoint(() => undefined, { stateless: true })
    const { url } = await serve(endpoint)

    const first = await post(url, messages[0], { prefer: 'respond-async, wait=0' })
    const token = (await first.json()).result._meta.nextResumeToken
    const written = JSON.stringify(messages).replaceAll('fAkqoZtAFZyNYU4v3fFAs', token)
    const [, interim, resumed, last] = JSON.parse(written)
    expect(await first.json()).toEqual(interim)
    const second = post(url, resumed)
    const { res, message } = endpoint.calls[0]!
    res.setHeader('Content-Type', 'application/json')
    res.end(JSON.stringify({ ...last, id: message.id }))
    expect(await (await second).json()).toEqual(last)

    for (const [i, response] of [first, await second].entries())
      for (const [, name, value] of heads[i]!.matchAll(/^([\w-]+): (.*)$/gm))
        expect([name, response.headers[name!.toLowerCase()]]).toEqual([name, value])
    expect(code).toContain('Prefer: respond-async, wait=4')
  })
})
