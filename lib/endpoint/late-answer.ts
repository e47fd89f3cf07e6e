// An answer that comes after its client's event stream has begun becomes messages.
import { promisify } from 'node:util'
import { brotliDecompress, unzip } from 'node:zlib'
import { faultError } from '../protocol/errors.js'
import {
  errorResponse,
  isObject,
  isResponse,
  type Message,
  type RequestId
} from '../protocol/json-rpc.js'
import { writtenMessages } from '../protocol/json-splice.js'
import { onOneLine } from '../protocol/sse-writer.js'
import { isPlainEncoding } from '../http/response-headers.js'

export interface LateAnswer {
  readonly status: number
  /** A header, by its lower-case name. */
  readonly header: (name: string) => string | undefined
  readonly body: Buffer
}

/** Headers that are too late: a client that needs them will not get them. */
const LATE_HEADERS = ['set-cookie', 'mcp-session-id', 'www-authenticate']

export function missedHeaders({ header }: LateAnswer): string[] {
  return LATE_HEADERS.filter(name => header(name) !== undefined)
}

/** The messages of an answer, on one line each, for requests that are owed a response. */
export function messagesIn(answer: LateAnswer, owed: readonly RequestId[]): string[] {
  const { status } = answer
  const said = writtenMessages(textOf(answer.body, answer.header('content-type')))
  const messages = said.map(({ message }) => message)
  if (status < 200 || status > 299) return owed.map(id => refusal(id, status, errorIn(messages)))
  const responses = said.filter(({ message }) => isResponse(message))
  const answered = new Set(responses.map(({ message }) => message.id))
  // An error that names no request is for all that have no other answer.
  const error = errorIn(messages.filter(({ id }) => (id ?? null) === null))
  const errors =
    error === undefined ? [] : owed.filter(id => !answered.has(id)).map(id => withError(id, error))
  return [...responses.map(one => onOneLine(one.text.trim())), ...errors]
}

/** Whether the body has to be decoded before its messages can be read. */
export function isEncoded({ header }: LateAnswer): boolean {
  return !isPlainEncoding(header('content-encoding'))
}

/** Rejects where it cannot be decoded, or comes to more than `limit` bytes. */
export async function decoded(answer: LateAnswer, limit: number): Promise<LateAnswer> {
  const { body, header } = answer
  const options = { maxOutputLength: limit }
  switch (header('content-encoding')?.trim().toLowerCase()) {
    case 'gzip':
    case 'x-gzip':
    case 'deflate':
      return { ...answer, body: await promisify<Buffer, object, Buffer>(unzip)(body, options) }
    case 'br':
      return {
        ...answer,
        body: await promisify<Buffer, object, Buffer>(brotliDecompress)(body, options)
      }
    default:
      throw new Error('The content coding is not known')
  }
}

/** Whether an answer could not be decoded because it comes to more than the limit. */
export function isTooLarge(error: unknown): boolean {
  return isObject(error) && error['code'] === 'ERR_BUFFER_TOO_LARGE'
}

/** Without a byte order mark, in the charset that the type names. */
function textOf(body: Buffer, contentType: string | undefined): string {
  const [, charset = 'utf-8'] = /;\s*charset\s*=\s*"?([^\s;"]+)/i.exec(contentType ?? '') ?? []
  try {
    return new TextDecoder(charset).decode(body)
  } catch {
    return '' // An unknown charset.
  }
}

function errorIn(messages: readonly Message[]): Record<string, unknown> | undefined {
  return messages.map(({ error }) => error).find(isObject)
}

function refusal(
  id: RequestId,
  status: number,
  error: Record<string, unknown> | undefined
): string {
  if (error !== undefined) return withError(id, error)
  const fault = 'endpoint-refused'
  return errorResponse(id, { ...faultError(fault), data: { reason: fault, status } })
}

function withError(id: RequestId, error: Record<string, unknown>): string {
  const message: Message & { jsonrpc: '2.0' } = { jsonrpc: '2.0', id, error }
  return JSON.stringify(message)
}
