// A stream that is silent, followed at another instance: the comments that keep its connection open
// are written there, and cost the others nothing.

import { describe, expect, it } from '@jest/globals'
import { until } from '../../helpers/happenings.js'
import { get } from '../../helpers/mcp.js'
import type { OpenStream } from '../../helpers/open-stream.js'
import { anywhere, at, gist, note } from './setup.js'

const COMMENT = ': keep-alive\n'
const KEEP_ALIVE = 20
/** So long that no sign of life is among what is counted. */
const LEASE = 600_000

const comments = ({ text }: OpenStream): number => text.split(COMMENT).length - 1

describe('a silent stream, followed at another instance', () => {
  it('gets comments from the instance that its client is at', async () => {
    const all = await anywhere({ keepAlive: KEEP_ALIVE }, { lease: LEASE })
    const { first, call, link } = await all.call()
    first.destroy()
    const waiting = await get(at(link, all, 1))
    call.emit(note('one'))
    await waiting.nextMessage()
    await until(() => comments(waiting) > 1)
    const before = { commands: all.hub.commands.length, comments: comments(waiting) }
    await until(() => comments(waiting) > before.comments + 5)
    expect(all.hub.commands.slice(before.commands)).toEqual([])
    call.emit(note('two'))
    call.result()
    await waiting.ended
    expect(gist(waiting)).toEqual(['one', 'two', 1])
  })

  it('gets no comment inside an event whose rest is missing', async () => {
    const all = await anywhere({ keepAlive: KEEP_ALIVE }, { lease: LEASE })
    const { first, call, link } = await all.call()
    first.destroy()
    const waiting = await get(at(link, all, 1))
    await until(() => comments(waiting) > 0)
    const { publish } = all.hub
    const lost: (() => void)[] = []
    let parts = 0
    all.hub.publish = (channel, message) => {
      const send = () => publish.call(all.hub, channel, message)
      if (message.length > 1000 && parts++ > 0) lost.push(send)
      else send()
    }
    const long = 'x'.repeat(200_000)
    call.emit(note(long))
    await until(() => waiting.text.length > 60_000)
    await new Promise(resolve => setTimeout(resolve, 5 * KEEP_ALIVE))
    expect(waiting.text).toMatch(/x$/)
    all.hub.publish = publish
    for (const send of lost) send()
    await waiting.nextMessage()
    const count = comments(waiting)
    await until(() => comments(waiting) > count)
    call.result()
    await waiting.ended
    expect(gist(waiting)).toEqual([long, 1])
  })
})
