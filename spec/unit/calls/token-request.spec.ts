// What makes two requests the same call, and what a call's endpoint sees of tokens.
import { describe, expect, it } from '@jest/globals'
import { endpointRequest, parametersOf } from '../../../lib/calls/token-request.js'
import type { Message } from '../../../lib/protocol/json-rpc.js'

const digest = (params: string): string | undefined => {
  const text = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`
  return parametersOf(JSON.parse(text) as Message, text)
}

describe('the parameters of a call', () => {
  it('are the same in any order, and written in any way', () => {
    expect(digest('{"a":1,"b":{"c":[1,"x"],"d":2}}')).toBe(
      digest(' {"b": {"d":2.0, "c":[1,"\\u0078"]}, "a":1e0}')
    )
    expect(digest('{"a":1}')).not.toBe(digest('{"a":"1"}'))
    expect(digest('{"a":[1,2]}')).not.toBe(digest('{"a":[2,1]}'))
    expect(digest('{}')).not.toBe(digest('{"a":null}'))
  })

  it('are others where a number is that JavaScript cannot tell apart', () => {
    expect(JSON.parse('9007199254740993')).toBe(JSON.parse('9007199254740992'))
    expect(digest('{"a":9007199254740993}')).toBe(digest('{"a":9007199254740993}'))
    expect(digest('{"a":9007199254740993}')).not.toBe(digest('{"a":9007199254740992}'))
    expect(digest('{"a":{"b":[9007199254740993]}}')).not.toBe(
      digest('{"a":{"b":[9007199254740992]}}')
    )
  })

  it('are the same whatever a client says of this one time', () => {
    const known = digest('{"a":1}')
    for (const meta of ['"resumeToken":"t"', '"express-mcp-streams/wait":1', '"progressToken":2'])
      expect(digest(`{"a":1,"_meta":{${meta}}}`)).toBe(known)
    expect(digest('{"a":1,"_meta":{"progressToken":9007199254740993}}')).toBe(known)
    expect(digest('{"a":1,"requestState":9007199254740993,"inputResponses":{}}')).toBe(known)
    expect(digest('{"a":1,"_meta":{"other":1}}')).not.toBe(known)
  })

  it('cannot be told where they are nested too deeply', () => {
    expect(digest(`{"a":${'['.repeat(20_000)}${']'.repeat(20_000)}}`)).toBeUndefined()
  })
})

describe('the request that the endpoint gets', () => {
  it('says nothing of tokens, and all else', () => {
    const request = (meta: object, params: object = {}): Message =>
      endpointRequest(
        {
          jsonrpc: '2.0',
          id: 1,
          method: 'tools/call',
          params: { ...params, _meta: meta }
        } as Message,
        'ours'
      )
    const known = { jsonrpc: '2.0', id: 'ours', method: 'tools/call' }
    expect(request({ resumeToken: null, 'express-mcp-streams/wait': 1 }, { a: 1 })).toEqual({
      ...known,
      params: { a: 1 }
    })
    expect(request({ resumeToken: 't', progressToken: 2 })).toEqual({
      ...known,
      params: { _meta: { progressToken: 2 } }
    })
    expect(endpointRequest({ jsonrpc: '2.0', id: 1, method: 'ping' } as Message, 'ours')).toEqual({
      ...known,
      method: 'ping'
    })
  })
})
