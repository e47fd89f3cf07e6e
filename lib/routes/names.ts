// The id in a request, in its head or in a message, of something that one of the instances has.
import { parseEventId, parseStreamName } from '../protocol/event-id.js'
import { parseForeignId } from '../protocol/foreign-id.js'
import { type Message, paramsOf } from '../protocol/json-rpc.js'
import { streamParameters } from '../protocol/link-header.js'
import { isStreamMethod } from '../protocol/stream-messages.js'
import { taskIdOf, taskMethodOf } from '../protocol/tasks.js'
import { isInstanceId } from '../backplane/instance-id.js'
import type { NameKind } from '../streams/directory.js'
import { tokenOf } from '../calls/token-request.js'
import { keyOf } from '../endpoint/idempotency.js'
import { streamNamesIn } from '../endpoint/mcp-request.js'
import type { Context } from './route.js'

export interface Named {
  readonly kind: NameKind
  readonly name: string
}

/** The id in its URL or its cursor. */
export function idNamed({ instance, req, method, lastEventId }: Context): Named | undefined {
  const [name] = streamNamesIn(req)
  if (name !== undefined) return named('stream', parseStreamName(name)?.id)
  const ticket = instance.resources?.downloads.namesIn(req).find(isInstanceId)
  if (ticket !== undefined) return named('ticket', ticket)
  return method === 'GET' ? named('stream', parseEventId(lastEventId ?? '')?.streamId) : undefined
}

/** Before a response has begun, a DELETE names a call by its key. */
function keyNamed(context: Context): Named | undefined {
  if (context.method !== 'DELETE') return undefined
  const values = streamParameters(context.req.url ?? '')
  return named('key', values.flatMap(value => keyOf(context, value) ?? [])[0])
}

/** What its head names: one of our ids, else its session. */
export function namedByHead(context: Context): Named | undefined {
  const { session, hasOversizedSession } = context
  return (
    idNamed(context) ??
    keyNamed(context) ??
    named('session', hasOversizedSession ? undefined : session)
  )
}

/** The first of our ids in its messages. */
export function namedByMessages(context: Context): Named | undefined {
  return context.messages
    .map(message => namedBy(context, message))
    .find(one => one !== undefined && isInstanceId(one.name))
}

/**
 * A call by its token, a task, a stream, or the stream whose request a message answers. If the
 * options `resumeTokens` or `tasks` are off, tokens and tasks are the endpoint's own.
 */
function namedBy(context: Context, message: Message): Named | undefined {
  const { tokens, tasks } = context.instance
  if (taskMethodOf(message) !== undefined)
    return named('task', tasks?.isAbout(context) === true ? taskIdOf(message) : undefined)
  const { streamId } = paramsOf(message)
  if (isStreamMethod(message))
    return named('stream', typeof streamId === 'string' ? streamId : undefined)
  const token = tokens === undefined ? undefined : tokenOf(message)
  return token === undefined
    ? named('stream', parseForeignId(message.id)?.originId)
    : named('token', token)
}

function named(kind: NameKind, name: string | undefined): Named | undefined {
  return name === undefined ? undefined : { kind, name }
}
