// How a request can be answered: the first of these that has an answer gives it.
import { calls } from './calls.js'
import { downloadUrl } from './download-url.js'
import { elsewhere, elsewhereByBody } from './elsewhere.js'
import { endpoint } from './endpoint.js'
import { listen } from './listen.js'
import { loopback } from './loopback.js'
import { ownAnswers } from './own-answers.js'
import { ownerFailed } from './owner-failed.js'
import { inexact, oversized } from './oversized.js'
import { post } from './post.js'
import { repeated } from './repeated.js'
import { resourceRequest } from './resource-request.js'
import { resume } from './resume-at-endpoint.js'
import type { Route } from './route.js'
import { streamMethod } from './stream-methods.js'
import { streamUrl } from './stream-url.js'
import { taskMethod } from './task-methods.js'
import { unknownStream } from './unknown-stream.js'

/** What is answered here, by the messages of a POST. */
const ours: readonly Route[] = [
  // What names something of another instance.
  elsewhereByBody,
  // `resources/stream`
  resourceRequest,
  // `stream/resume`, `stream/poll`, `stream/poll/all`
  streamMethod,
  // Answers to requests of ours, and those that the endpoint has already.
  ownAnswers,
  // `tasks/get`, `tasks/update`, `tasks/cancel`
  taskMethod
]

export const routes: readonly Route[] = [
  ownerFailed,
  // What we have sent to the endpoint ourselves.
  loopback,
  // What another instance has.
  elsewhere,
  // `?stream=`: resume, follow, answer, cancel.
  streamUrl,
  downloadUrl,
  // From here on by messages, once they have come.
  post(ours, [inexact, ...ours, oversized, repeated, calls, endpoint]),
  oversized,
  // A GET with `Last-Event-ID`.
  resume,
  unknownStream,
  // A GET of a session that listens already.
  listen,
  endpoint
]
