// The order in which Jest runs spec files: the slowest first, so that none of them begins when the
// other workers are about to end. A clean clone has no durations of earlier runs, and by size a
// spec of eight lines that cuts a wire two thousand times comes last.
import Sequencer from '@jest/test-sequencer'

const SLOWEST = [
  // What measures memory collects garbage again and again: quick in a process that has run little.
  'features/limits/held',
  'features/keyed/retained',
  'features/limits/vanishing',
  'features/resume-tokens/kept',
  'e2e/every-byte/client-v',
  'e2e/conformance/',
  'e2e/proxies/nginx',
  'e2e/every-byte/',
  'e2e/examples/playground.spec',
  'e2e/redis/processes',
  'features/client/slow-json',
  'features/client/handoff.spec',
  'e2e/redis/',
  'features/client/calls',
  'e2e/package/',
  'e2e/examples/',
  'e2e/check/',
  'features/client/resource-with-server',
  'e2e/browser/',
  'unit/endpoint/request-body',
  'features/hand-off/pinged',
  'e2e/proxies/',
  'features/backplane/life',
  'features/mounting/',
  'features/resume-tokens/official-clients',
  'features/at-will/close',
  'features/slow-json/come-again'
]

export default class SlowestFirst extends Sequencer {
  sort(tests) {
    return super.sort(tests).sort((a, b) => rank(a) - rank(b))
  }
}

function rank({ path }) {
  const place = SLOWEST.findIndex(part => path.includes(`/spec/${part}`))
  return place === -1 ? SLOWEST.length : place
}
