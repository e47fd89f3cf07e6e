// What the suite asks of a server at 2026-07-28 alone: rounds of input instead of requests to the
// client, and subscriptions.
import {
  CLIENT_CAPABILITIES_META_KEY,
  acceptedContent,
  createRequestStateCodec,
  inputRequired
} from '@modelcontextprotocol/server'
import { randomBytes } from 'node:crypto'
import * as z from 'zod'
import { text, user } from './everything.js'

const states = createRequestStateCodec({ key: randomBytes(32) })

/** The server option that rejects a state which this process has not made. */
export const requestState = { verify: states.verify }

const ask = (message, field, type = 'string') =>
  inputRequired.elicit({
    message,
    requestedSchema: { type: 'object', properties: { [field]: { type } }, required: [field] }
  })
const sample = (question, maxTokens) =>
  inputRequired.createMessage({ messages: [{ role: 'user', content: text(question) }], maxTokens })

/**
 * Registers the tools and the prompt that need another round. `notify` publishes to the open
 * subscriptions.
 */
export function needsInput(server, notify) {
  const tool = (name, description, handle, inputSchema) =>
    server.registerTool(
      name,
      { description, ...(inputSchema && { inputSchema }) },
      inputSchema ? handle : context => handle({}, context)
    )
  /** A tool of two rounds: asks until every input is there, then answers. */
  const rounds = (name, description, inputRequests, answer, seal) =>
    tool(name, description, async (_, { mcpReq }) => {
      const inputs = mcpReq.inputResponses ?? {}
      if (Object.keys(inputRequests).every(key => key in inputs))
        return { content: [text(answer(inputs))] }
      return inputRequired({
        inputRequests,
        ...(seal && { requestState: await states.mint({ for: name }) })
      })
    })

  const name = { user_name: ask('What is your name?', 'name') }
  const ok = { confirm: ask('Please confirm', 'ok', 'boolean') }
  const greeting = { greeting: sample('Generate a greeting', 50) }
  const roots = { client_roots: inputRequired.listRoots() }

  rounds('test_input_required_result_elicitation', 'Asks for a name', name, inputs => {
    const { name } = acceptedContent(inputs, 'user_name', z.object({ name: z.string() })) ?? {}
    return `Hello, ${name}!`
  })
  rounds(
    'test_input_required_result_sampling',
    'Asks a model',
    { capital_question: sample('What is the capital of France?', 100) },
    inputs => inputs.capital_question.content.text
  )
  rounds('test_input_required_result_list_roots', 'Asks for the roots', roots, inputs =>
    inputs.client_roots.roots.map(({ uri }) => uri).join(', ')
  )
  rounds('test_input_required_result_request_state', 'Keeps a state', ok, () => 'state-ok', true)
  rounds(
    'test_input_required_result_tampered_state',
    'Keeps a state and checks it',
    ok,
    () => 'state-ok',
    true
  )
  rounds(
    'test_input_required_result_multiple_inputs',
    'Asks for three things at once',
    { ...name, ...greeting, ...roots },
    inputs => Object.keys(inputs).join(', '),
    true
  )

  tool('test_input_required_result_multi_round', 'Asks twice', async (_, { mcpReq }) => {
    const { step } = mcpReq.requestState() ?? { step: 0 }
    if (step === 2) return { content: [text('Both steps done')] }
    const next =
      step === 0
        ? ask('Step 1: What is your name?', 'name')
        : ask('Step 2: What is your color?', 'color')
    return inputRequired({
      inputRequests: { [`step${step + 1}`]: next },
      requestState: await states.mint({ step: step + 1 })
    })
  })

  tool(
    'test_input_required_result_capabilities',
    'Asks for what the client can give',
    (_, { mcpReq }) => {
      const declared = mcpReq.envelope?.[CLIENT_CAPABILITIES_META_KEY] ?? {}
      return inputRequired({
        inputRequests: { ...(declared.elicitation && name), ...(declared.sampling && greeting) }
      })
    }
  )

  tool('test_missing_capability', 'Needs sampling, whatever the client declares', () =>
    inputRequired({ inputRequests: greeting })
  )
  tool('test_streaming_elicitation', 'Asks on a response stream', () =>
    inputRequired({ inputRequests: name })
  )
  tool('test_logging_tool', 'Logs, if the client wants to hear it', async (_, { mcpReq }) => {
    await mcpReq.log('info', 'A line of log')
    return { content: [text('Logged')] }
  })
  tool('test_trigger_tool_change', 'Tells every subscriber that the tools changed', () => {
    notify().toolsChanged()
    return { content: [text('Done')] }
  })
  tool('test_trigger_prompt_change', 'Tells every subscriber that the prompts changed', () => {
    notify().promptsChanged()
    return { content: [text('Done')] }
  })
  tool(
    'test_x_mcp_header',
    'Has an argument that travels in a header, too',
    ({ region }) => ({ content: [text(region ?? 'nowhere')] }),
    z.object({ region: z.string().meta({ 'x-mcp-header': 'Region' }).optional() })
  )

  server.registerPrompt(
    'test_input_required_result_prompt',
    { description: 'A prompt that asks for its context' },
    ({ mcpReq }) => {
      const answer = acceptedContent(
        mcpReq.inputResponses,
        'user_context',
        z.object({ context: z.string() })
      )
      if (answer) return user(text(`Context: ${answer.context}`))
      return inputRequired({
        inputRequests: { user_context: ask('What context should the prompt use?', 'context') }
      })
    }
  )
  return server
}
