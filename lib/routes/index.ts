// The list of routes: of those to whom a request is special, the first one that has an answer gives
// it. A POST to which nothing of this applies goes straight to the endpoint.
import type { Feature } from '../endpoint/feature.js'
import type { Triggers } from '../endpoint/triggers.js'
import { endpoint, inexact, loopback, oversized, ownerFailed, post } from './endpoint.js'
import { leaving } from './leaving.js'
import { resume } from './resume-at-endpoint.js'
import type { Asked, FeatureRow, Route, Row, Routes, RoutesInstance } from './route.js'
import { streamUrl } from './stream-url.js'
import { unknownStream } from './unknown-stream.js'

const KEY: Triggers = { headers: ['idempotency-key'] }
const CURSOR: Triggers = { headers: ['last-event-id'] }
const OVERSIZED: Triggers = { traits: ['oversized'] }
const LEAVING: Triggers = { traits: ['leaving'] }

/** Compiled once for each instance. */
export function routesOf(instance: Omit<RoutesInstance, 'routes'>): Routes {
  const { triggers, others } = instance
  const on = (special: Triggers, route: Route | undefined): Row[] =>
    route === undefined ? [] : [{ parts: triggers.add(special), ask: route }]
  const asked = (hook: Asked): FeatureRow[] =>
    instance.features
      .filter(feature => feature[hook] !== undefined)
      .map(feature => ({ parts: triggers.add(feature.triggers), feature }))
  const features = (hook: 'byHead' | 'byMessage' | 'beforeEndpoint'): Row[] =>
    asked(hook).map(({ parts, feature }) => ({ parts, ask: askBy(feature, hook) }))

  return {
    byHead: [
      ...on({ traits: ['owner-failed'] }, ownerFailed),
      // A request that the middleware has sent to the endpoint itself.
      ...on({ traits: ['own'] }, loopback),
      // A head that names something that another instance has.
      ...on('all', others && (context => others.byHead(context))),
      // A download URL, or a call that its client cancels by its key.
      ...features('byHead'),
      // `?stream=`: resume, follow, answer, cancel.
      ...on({ query: ['stream'] }, streamUrl),
      // A POST: by its messages, once its body has been read.
      ...on({ verbs: ['POST'] }, post),
      ...on(OVERSIZED, oversized),
      // A GET with `Last-Event-ID`.
      ...on(CURSOR, resume),
      ...on(CURSOR, unknownStream),
      ...on(LEAVING, leaving),
      // A GET of a session that has a listen channel already.
      ...features('beforeEndpoint'),
      ...on('all', endpoint)
    ],
    byMessages: [
      ...on({ traits: ['inexact'] }, inexact),
      // A message that names something that another instance has.
      ...on('all', others && (context => others.byMessage(context))),
      // `stream/resume` and the like, `resources/stream`, methods about tasks; and answers to
      // requests of ours, or that the endpoint has got already.
      ...features('byMessage'),
      ...on(OVERSIZED, oversized),
      // A key under which another instance has a call.
      ...on(KEY, others && (context => others.byKey(context))),
      // New, where this instance leaves.
      ...on(LEAVING, leaving),
      // A POST that is sent again under its key.
      ...features('beforeEndpoint'),
      ...on('all', endpoint)
    ],
    named: asked('namedBy'),
    workers: asked('worker'),
    rewriters: asked('rewrite')
  }
}

function askBy(feature: Feature, hook: 'byHead' | 'byMessage' | 'beforeEndpoint'): Route {
  return context => feature[hook]?.(context)
}
