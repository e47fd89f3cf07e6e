// The headers that repeat parts of the body (2026-07-28).

import { describe, expect, it } from '@jest/globals'
import { headerFault, nameIn } from '../../../lib/protocol/standard-headers.js'

const call = { method: 'tools/call', params: { name: 'grüße' } }
const fault = (headers: Record<string, string>, message: object = call) =>
  headerFault(name => headers[name], message)
const base64 = (bytes: string | Uint8Array): string =>
  `=?base64?${Buffer.from(bytes as string).toString('base64')}?=`

describe('the name of a request', () => {
  it.each([
    [{ method: 'tools/call', params: { name: 'a' } }, 'a'],
    [{ method: 'resources/read', params: { uri: 'file:///a' } }, 'file:///a'],
    [{ method: 'tasks/get', params: { taskId: 't' } }, 't'],
    [{ method: 'tools/list', params: { name: 'a' } }, undefined],
    [{ method: 'constructor', params: { name: 'a' } }, undefined],
    [{ method: 'tools/call' }, undefined],
    [{ method: 'tools/call', params: { name: 5 } }, undefined]
  ])('%j', (message, name) => expect(nameIn(message)).toBe(name))
})

describe('a head', () => {
  it('that agrees with the body has no fault, plain or encoded', () => {
    expect(fault({ 'mcp-method': 'tools/call', 'mcp-name': base64('grüße') })).toBeUndefined()
    expect(fault({ 'mcp-method': 'tools/call', 'mcp-name': 'grüße' })).toBeUndefined()
    expect(fault({ 'mcp-method': 'ping' }, { method: 'ping' })).toBeUndefined()
    // Nothing has to agree here: the body has another fault.
    expect(fault({ 'mcp-method': 'tools/call' }, { method: 'tools/call' })).toBeUndefined()
  })

  it.each([
    [{}],
    [{ 'mcp-method': 'tools/list', 'mcp-name': 'grüße' }],
    [{ 'mcp-method': 'tools/call' }],
    [{ 'mcp-method': 'tools/call', 'mcp-name': 'other' }],
    [{ 'mcp-method': 'tools/call', 'mcp-name': '=?base64?Zm9?=' }],
    [{ 'mcp-method': 'tools/call', 'mcp-name': base64(Uint8Array.of(0xff)) }]
  ])('of %j does not', headers => expect(fault(headers as Record<string, string>)).toBeDefined())
})
