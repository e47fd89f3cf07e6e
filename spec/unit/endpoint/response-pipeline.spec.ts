// Stages stand in one order, whenever they are added; a response that none is left for gets its
// methods back.

import { describe, expect, it } from '@jest/globals'
import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { METHOD_NAMES } from '../../../lib/endpoint/node-internals.js'
import { pipelineOf } from '../../../lib/endpoint/response-pipeline.js'
import { Stage, STAGE_ORDER, type StageKind } from '../../../lib/endpoint/stage.js'

const aResponse = (): ServerResponse => new ServerResponse(new IncomingMessage(new Socket()))

class Named extends Stage {
  constructor(
    readonly kind: StageKind,
    readonly passed: string[],
    readonly name: string = kind
  ) {
    super()
  }

  override setHeader(name: string, value: string): ServerResponse {
    this.passed.push(this.name)
    return super.setHeader(name, value)
  }
}

describe('what the endpoint does to a response', () => {
  it('goes through its stages in one order, however they were added', () => {
    const orders = [
      [...STAGE_ORDER],
      [...STAGE_ORDER].reverse(),
      ['capture', 'cookie', 'rewrite', 'observe', 'record'] as const
    ]
    for (const order of orders) {
      const res = aResponse()
      const passed: string[] = []
      for (const kind of order) pipelineOf(res).add(new Named(kind, passed))
      res.setHeader('X-A', 'b')
      expect(passed).toEqual(STAGE_ORDER)
      expect(res.getHeader('X-A')).toBe('b')
    }
  })

  it('goes through the later one of two stages of a kind first', () => {
    const res = aResponse()
    const passed: string[] = []
    for (const name of ['first', 'second']) pipelineOf(res).add(new Named('rewrite', passed, name))
    res.setHeader('X-A', 'b')
    expect(passed).toEqual(['second', 'first'])
  })

  it('goes through whoever has patched it between two stages, between them', () => {
    const res = aResponse()
    const passed: string[] = []
    pipelineOf(res).add(new Named('rewrite', passed))
    const { setHeader } = res
    res.setHeader = function (this: ServerResponse, name, value) {
      passed.push('between')
      return setHeader.call(this, name, value) as ServerResponse
    } as ServerResponse['setHeader']
    pipelineOf(res).add(new Named('cookie', passed))
    res.setHeader('X-A', 'b')
    expect(passed).toEqual(['cookie', 'between', 'rewrite'])
  })

  it('tells by headersSent what the stages say of the head, whoever stands between them', () => {
    class Holding extends Named {
      isHolding = false
      override get hasHead(): boolean {
        return this.isHolding || super.hasHead
      }
    }
    const res = aResponse()
    const stages = [new Holding('rewrite', []), new Holding('rewrite', [])] as const
    for (const stage of stages) {
      pipelineOf(res).add(stage)
      pipelineOf(res).showHead()
      res.setHeader = res.setHeader.bind(res)
    }
    expect(res.headersSent).toBe(false)
    for (const stage of stages) {
      stage.isHolding = true
      expect(res.headersSent).toBe(true)
      stage.isHolding = false
    }
    res.writeHead(200)
    expect(res.headersSent).toBe(true)
  })
})

describe('a response without a stage', () => {
  it('has the methods that it had before', () => {
    const res = aResponse()
    const own = (): void => undefined
    res.flushHeaders = own
    const before = METHOD_NAMES.map(name => (res as never)[name] as unknown)
    const pipeline = pipelineOf(res)
    const stages = [new Named('capture', []), new Named('cookie', [])]
    for (const stage of stages) pipeline.add(stage)
    expect(METHOD_NAMES.map(name => (res as never)[name] as unknown)).not.toEqual(before)
    for (const stage of stages) pipeline.remove(stage)
    expect(METHOD_NAMES.map(name => (res as never)[name] as unknown)).toEqual(before)
    expect(res.flushHeaders).toBe(own)
  })

  it('keeps what somebody has put on top, which reaches Node through nobody', () => {
    const res = aResponse()
    const passed: string[] = []
    const pipeline = pipelineOf(res)
    const stage = new Named('capture', passed)
    pipeline.add(stage)
    const { setHeader } = res
    const onTop = function (this: ServerResponse, name: string, value: string): ServerResponse {
      return setHeader.call(this, name, value) as ServerResponse
    }
    res.setHeader = onTop as ServerResponse['setHeader']
    pipeline.remove(stage)
    expect(res.setHeader).toBe(onTop)
    res.setHeader('X-A', 'b')
    expect(res.getHeader('X-A')).toBe('b')
    expect(passed).toEqual([])
  })
})
