// An endpoint that passes each request on to another server, as the proxies for Express do: its
// response is piped, and there is nobody here who ends it when that server dies.

import { expect, it } from '@jest/globals'
import { request as requestOf } from 'node:http'
import { gate, rawEndpoint } from '../../helpers/endpoints/raw.js'
import { sdkV1Stateful } from '../../helpers/endpoints/sdk-v1.js'
import { closeLater, listen, type Handler } from '../../helpers/listen.js'
import { callTool, headersFor, notification, post } from '../../helpers/mcp.js'
import { runBare, runWithCut } from './cut-and-resume.js'
import { ENDPOINTS } from './endpoints.js'
import { createStreams, MOUNTS, type Middleware } from './frameworks.js'

/** Passes requests on to `<target>/mcp`. */
function passOn(target: string): Handler {
  return (req, res) => {
    const { method, headers } = req
    const onward = requestOf(`${target}/mcp`, { method, headers, agent: false }, answer => {
      res.writeHead(answer.statusCode!, answer.statusMessage, answer.headers)
      answer.pipe(res)
      // The README of the quick start asks for this line.
      answer.once('close', () => answer.complete || res.destroy())
      res.once('close', () => answer.destroy())
    })
    const close = closeLater(() => onward.destroy())
    onward.once('close', () => void close())
    onward.once('error', () => res.destroy())
    return req.pipe(onward)
  }
}

const kind = ENDPOINTS['SDK v1 stateful']

it.each(MOUNTS)('on %s goes on with a call that is cut', async (_framework, mount) => {
  const bare = await runBare(kind, ...(await chainOf([])))
  const { uncut, resumed } = await runWithCut(kind, ...(await chainOf([createStreams()])))
  expect(uncut).toEqual(bare)
  expect(resumed).toEqual(bare)

  async function chainOf(inFront: Middleware[]) {
    const endpoint = sdkV1Stateful()
    const { url } = await listen((req, res) => void endpoint(req, res))
    return [mount([...inFront, passOn(url)]), endpoint] as const
  }
})

it.each(MOUNTS)('on %s says when the other server has died', async (_framework, mount) => {
  const news = notification('notifications/message', { level: 'info', data: 'news' })
  const sent = gate()
  const endpoint = rawEndpoint(async call => {
    call.emit(news)
    await sent.opened
    call.res.destroy()
  })
  const other = await listen(endpoint)
  const { url } = await listen(mount([createStreams(), passOn(other.url)]))
  const response = await post(
    `${url}/mcp`,
    callTool(1, 'any'),
    headersFor({ version: '2025-11-25' })
  )
  await response.take(2)
  sent.open()
  expect(await response.ended).toBe('end')
  expect(response.messages()).toEqual([
    news,
    {
      jsonrpc: '2.0',
      id: 1,
      error: {
        code: -31000,
        message: 'The server ended the stream without a response',
        data: { reason: 'no-response' }
      }
    }
  ])
})
