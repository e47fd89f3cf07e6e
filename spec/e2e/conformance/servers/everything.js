// What the suite asks of a server at any revision, said once for both lines of the SDK: tools,
// resources, prompts.
import { setTimeout as delay } from 'node:timers/promises'
import * as z from 'zod'

export const serverInfo = { name: 'everything', version: '1.0.0' }

export const capabilities = {
  tools: { listChanged: true },
  resources: { subscribe: true, listChanged: true },
  prompts: { listChanged: true },
  logging: {},
  completions: {}
}

const pixel =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=='
const silence = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA='

export const text = words => ({ type: 'text', text: words })
const image = { type: 'image', data: pixel, mimeType: 'image/png' }
const audio = { type: 'audio', data: silence, mimeType: 'audio/wav' }
const resource = (uri, mimeType, words) => ({
  type: 'resource',
  resource: { uri, mimeType, text: words }
})

export const user = (...contents) => ({
  messages: contents.map(content => ({ role: 'user', content }))
})

/**
 * Registers everything on an `McpServer`. What the two lines of the SDK spell differently comes in
 * `sdk`:
 * `ResourceTemplate` and `completable`, and `log`, `notify`, `request`, `progressToken` and
 * `disconnect`, each taking the context that line hands to a tool.
 */
export function everything(server, sdk) {
  const tool = (name, description, handle, inputSchema) =>
    server.registerTool(
      name,
      { description, ...(inputSchema && { inputSchema }) },
      inputSchema ? handle : context => handle({}, context)
    )
  const says = (name, description, ...content) => tool(name, description, () => ({ content }))

  says('test_simple_text', 'Answers with text', text('This is a simple text response for testing.'))
  says('test_image_content', 'Answers with an image', image)
  says('test_audio_content', 'Answers with audio', audio)
  says(
    'test_embedded_resource',
    'Answers with a resource',
    resource('test://embedded-resource', 'text/plain', 'This is an embedded resource content.')
  )
  says(
    'test_multiple_content_types',
    'Answers with text, an image and a resource',
    text('Multiple content types test:'),
    image,
    resource('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}')
  )
  tool('test_error_handling', 'Always throws', () => {
    throw new Error('This tool intentionally returns an error for testing')
  })

  tool('test_tool_with_logging', 'Logs three times while it works', async (_, context) => {
    await sdk.log(context, 'Tool execution started')
    await delay(50)
    await sdk.log(context, 'Tool processing data')
    await delay(50)
    await sdk.log(context, 'Tool execution completed')
    return { content: [text('Tool with logging executed successfully')] }
  })

  tool('test_tool_with_progress', 'Reports progress three times', async (_, context) => {
    const progressToken = sdk.progressToken(context)
    for (const progress of [0, 50, 100]) {
      if (progress > 0) await delay(50)
      if (progressToken === undefined) continue
      await sdk.notify(context, 'notifications/progress', { progressToken, progress, total: 100 })
    }
    return { content: [text('Tool with progress executed successfully')] }
  })

  tool(
    'test_reconnection',
    'Disconnects its client in the middle of the call',
    async (_, context) => {
      sdk.disconnect(context)
      await delay(100)
      return { content: [text('Reconnection test completed successfully')] }
    }
  )

  tool(
    'test_sampling',
    "Asks the client's model",
    async ({ prompt }, context) => {
      const messages = [{ role: 'user', content: text(prompt) }]
      const answer = await sdk.request(context, 'sampling/createMessage', {
        messages,
        maxTokens: 100
      })
      return { content: [text(`LLM response: ${answer.content.text}`)] }
    },
    z.object({ prompt: z.string() })
  )

  const elicit = async (context, message, properties, required) => {
    const requestedSchema = { type: 'object', properties, ...(required && { required }) }
    const { action, content } = await sdk.request(context, 'elicitation/create', {
      message,
      requestedSchema
    })
    return {
      content: [
        text(`Elicitation completed: action=${action}, content=${JSON.stringify(content ?? {})}`)
      ]
    }
  }

  tool(
    'test_elicitation',
    'Asks the user',
    ({ message }, context) =>
      elicit(context, message, { username: { type: 'string' }, email: { type: 'string' } }, [
        'username',
        'email'
      ]),
    z.object({ message: z.string() })
  )
  tool(
    'test_elicitation_sep1034_defaults',
    'Asks the user, with a default for every primitive type',
    (_, context) =>
      elicit(context, 'Review the defaults', {
        name: { type: 'string', default: 'John Doe' },
        age: { type: 'integer', default: 30 },
        score: { type: 'number', default: 95.5 },
        status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
        verified: { type: 'boolean', default: true }
      })
  )
  const titled = [1, 2, 3].map(n => ({ const: `value${n}`, title: `Option ${n}` }))
  const plain = ['option1', 'option2', 'option3']
  tool(
    'test_elicitation_sep1330_enums',
    'Asks the user to choose, with every kind of enum',
    (_, context) =>
      elicit(context, 'Choose', {
        untitledSingle: { type: 'string', enum: plain },
        titledSingle: { type: 'string', oneOf: titled },
        legacyEnum: {
          type: 'string',
          enum: ['opt1', 'opt2', 'opt3'],
          enumNames: ['One', 'Two', 'Three']
        },
        untitledMulti: { type: 'array', items: { type: 'string', enum: plain } },
        titledMulti: { type: 'array', items: { anyOf: titled } }
      })
  )

  tool(
    'json_schema_2020_12_tool',
    'Shows keywords of JSON Schema 2020-12 in its input schema',
    () => ({ content: [text('Accepted')] }),
    z
      .strictObject({
        name: z.string().optional(),
        address: z.looseObject({}).optional().meta({ $ref: '#/$defs/address' }),
        contactMethod: z.enum(['phone', 'email']).optional(),
        phone: z.string().optional(),
        email: z.string().optional()
      })
      .meta({
        $schema: 'https://json-schema.org/draft/2020-12/schema',
        $defs: {
          address: {
            $anchor: 'addressDef',
            type: 'object',
            properties: { street: { type: 'string' }, city: { type: 'string' } }
          }
        },
        allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
        if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
        then: { required: ['phone'] },
        else: { required: ['email'] }
      })
  )

  const holds = (name, uri, contents) =>
    server.registerResource(name, uri, { description: name, mimeType: contents.mimeType }, () => ({
      contents: [{ uri, ...contents }]
    }))
  holds('Static text', 'test://static-text', {
    mimeType: 'text/plain',
    text: 'This is the content of the static text resource.'
  })
  holds('Static binary', 'test://static-binary', { mimeType: 'image/png', blob: pixel })
  holds('Watched', 'test://watched-resource', {
    mimeType: 'text/plain',
    text: 'Watched resource content'
  })
  server.registerResource(
    'Template',
    new sdk.ResourceTemplate('test://template/{id}/data', { list: undefined }),
    { description: 'Data by id', mimeType: 'application/json' },
    (uri, { id }) => ({
      contents: [
        {
          uri: uri.href,
          mimeType: 'application/json',
          text: JSON.stringify({ id, data: `Data for ID: ${id}` })
        }
      ]
    })
  )

  const prompt = (name, description, handle, argsSchema) =>
    server.registerPrompt(name, { description, ...(argsSchema && { argsSchema }) }, handle)

  prompt('test_simple_prompt', 'A prompt without arguments', () =>
    user(text('This is a simple prompt for testing.'))
  )
  prompt(
    'test_prompt_with_arguments',
    'A prompt with two arguments',
    ({ arg1, arg2 }) => user(text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)),
    sdk.arguments({
      arg1: sdk.completable(z.string(), () => ['test', 'testing']),
      arg2: z.string()
    })
  )
  prompt(
    'test_prompt_with_embedded_resource',
    'A prompt that carries a resource',
    ({ resourceUri }) =>
      user(
        resource(resourceUri, 'text/plain', 'Embedded resource content for testing.'),
        text('Please process the embedded resource above.')
      ),
    sdk.arguments({ resourceUri: z.string() })
  )
  prompt('test_prompt_with_image', 'A prompt that carries an image', () =>
    user(image, text('Please analyze the image above.'))
  )
  return server
}
