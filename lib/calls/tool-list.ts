// Changes the lists of tools in the endpoint's answers.
import { isObject, type Message } from '../protocol/json-rpc.js'

type Tool = Record<string, unknown>

/** A message with its tools changed; the same object if no tool was changed. */
export function withTools(message: Message, change: (tool: Tool) => Tool): Message {
  const { result } = message
  if (!isObject(result) || !Array.isArray(result['tools'])) return message
  const tools: unknown[] = result['tools']
  const changed = tools.map(tool => (isObject(tool) ? change(tool) : tool))
  if (changed.every((tool, i) => tool === tools[i])) return message
  return { ...message, result: { ...result, tools: changed } }
}
