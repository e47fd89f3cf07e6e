// The example servers under test: which server, with which flags, at which revision, and what the
// middleware must add.

const streams = ['server-accepts-multiple-post-streams', 'server-sse-streams-functional']
const primed = ['server-sse-priming-event', 'server-sse-retry-field']
/**
 * `proves`: ids of checks that must pass with the middleware, whatever they do bare; `all`: every
 * one. `scenarios`: those to run, in place of the revision's. `unseen`: ids of checks that tell
 * nothing behind the middleware, as the call gets its response before they begin.
 *
 * @type {{ name: string, server: string, flags: string[], revision: string, scenarios?: string[],
 *   proves: string[] | 'all', unseen?: string[] }[]}
 */
export const variants = [
  {
    name: 'SDK v1, sessions',
    server: 'everything-v1.js',
    flags: [],
    revision: '2025-11-25',
    proves: [...primed, ...streams]
  },
  {
    // Both would number the events: the middleware's ids replace those of the store.
    name: 'SDK v1, its own event store',
    server: 'everything-v1.js',
    flags: ['--event-store'],
    revision: '2025-11-25',
    proves: [...primed, ...streams],
    // The endpoint closes the stream of a call, and the middleware comes back in place of a client
    // that has not shown that it would: there is no disconnect for it to see.
    unseen: ['server-sse-disconnect-resume']
  },
  {
    name: 'SDK v2, sessions',
    server: 'everything-v2.js',
    flags: [],
    revision: '2025-11-25',
    proves: [...primed, ...streams]
  },
  {
    // Without a session id the suite neither resumes nor opens several streams.
    name: 'SDK v2, createMcpHandler, stateless',
    server: 'everything-v2.js',
    flags: ['--stateless'],
    revision: '2025-11-25',
    proves: primed
  },
  {
    name: 'SDK v2, createMcpHandler',
    server: 'everything-v2.js',
    flags: [],
    revision: '2026-07-28',
    proves: ['server-accepts-multiple-post-streams']
  },
  {
    name: 'SDK v2, createMcpHandler, always SSE',
    server: 'everything-v2.js',
    flags: ['--sse'],
    revision: '2026-07-28',
    proves: streams
  },
  {
    // Not on the suite's timeline, as an extension: its scenarios are named one by one.
    name: 'SDK v2, no task code',
    server: 'tasks.js',
    flags: [],
    revision: '2026-07-28',
    scenarios: [
      'tasks-lifecycle',
      'tasks-capability-negotiation',
      'tasks-wire-fields',
      'tasks-request-state-removal',
      'tasks-mrtr-input',
      'tasks-dispatch-and-envelope',
      'tasks-request-headers',
      'tasks-required-task-error',
      'tasks-mrtr-composition'
    ],
    proves: 'all'
  }
]
