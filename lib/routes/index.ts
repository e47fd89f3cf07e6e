// The list of routes: the first one that has an answer to a request gives it.
import { endpoint, inexact, oversized } from './endpoint.js'
import { beforeEndpoint, featureByHead, featureByMessage } from './features.js'
import { leaving } from './leaving.js'
import { loopback, ownerFailed, post } from './post.js'
import { resume } from './resume-at-endpoint.js'
import type { Route } from './route.js'
import { streamUrl } from './stream-url.js'
import { unknownStream } from './unknown-stream.js'

const byMessages: readonly Route[] = [
  inexact,
  // A message that names something that another instance has.
  context => context.instance.others?.byMessage(context),
  // `stream/resume` and the like, `resources/stream`, methods about tasks; and answers to requests
  // of ours, or that the endpoint has got already.
  featureByMessage,
  oversized,
  // A key under which another instance has a call.
  context => context.instance.others?.byKey(context),
  // New, where this instance leaves.
  leaving,
  // A POST that is sent again under its key.
  beforeEndpoint,
  endpoint
]

export const routes: readonly Route[] = [
  ownerFailed,
  // A request that the middleware has sent to the endpoint itself.
  loopback,
  // A head that names something that another instance has.
  context => context.instance.others?.byHead(context),
  // A download URL, or a call that its client cancels by its key.
  featureByHead,
  // `?stream=`: resume, follow, answer, cancel.
  streamUrl,
  // A POST: by its messages, once its body has been read.
  post(byMessages),
  oversized,
  // A GET with `Last-Event-ID`.
  resume,
  unknownStream,
  leaving,
  // A GET of a session that has a listen channel already.
  beforeEndpoint,
  endpoint
]
