// The order in which Jest runs spec files: the slowest first, so that none of them begins when the
// other workers are about to end; and at any time about one that mostly waits beside two that
// compute, which is what two cores bear. A clean clone has no durations of earlier runs, and by size
// a spec of eight lines that cuts a wire two thousand times comes last.
import Sequencer from '@jest/test-sequencer'

// What measures memory collects garbage again and again: quick in a process that has run little.
const FIRST = [
  'features/limits/vanishing',
  'features/limits/held',
  'features/keyed/retained',
  'features/resume-tokens/kept'
]

// Seconds, roughly.
const COMPUTING = {
  'e2e/every-byte/client-v1': 75,
  'e2e/every-byte/client-v2': 70,
  'e2e/conformance/': 55,
  'e2e/every-byte/resume-tokens': 50,
  'e2e/every-byte/resume.spec': 50,
  'e2e/every-byte/hand-off': 30,
  'features/client/handoff.spec': 30,
  'e2e/examples/quick-start': 30,
  'e2e/package/': 30,
  'e2e/every-byte/transport': 25,
  'e2e/examples/files': 25,
  'e2e/examples/playground.spec': 25,
  'features/client/resource-with-server': 20,
  'e2e/browser/resumable-fetch': 20,
  'features/mounting/neighbours': 12,
  'e2e/examples/': 10,
  'features/mounting/any-endpoint': 10,
  'e2e/readme/reference': 10,
  'features/endpoint/request-body': 10
}
const WAITING = {
  'e2e/proxies/nginx': 45,
  'features/client/slow-json': 40,
  'e2e/redis/processes': 30,
  'features/client/calls': 30,
  'e2e/proxies/haproxy': 25,
  'e2e/examples/report': 25,
  'e2e/examples/cluster': 20,
  'e2e/examples/slow-json': 20,
  'e2e/redis/trouble': 15,
  'e2e/examples/servers': 15,
  'e2e/check/': 15,
  'e2e/examples/tasks': 15,
  'features/backplane/life': 10,
  'e2e/redis/': 10,
  'features/slow-json/come-again': 10
}
const OTHERS = 2
const COMPUTING_AT_ONCE = 2

export default class SlowestFirst extends Sequencer {
  sort(tests) {
    const sorted = super.sort(tests)
    const first = FIRST.flatMap(name => sorted.filter(test => nameOf(test, [name])))
    const rest = sorted.filter(test => !nameOf(test, FIRST))
    const waiting = rest.filter(test => nameOf(test, Object.keys(WAITING)))
    const computing = rest.filter(test => !nameOf(test, Object.keys(WAITING)))
    const begun = [
      ...beginnings(waiting, WAITING, 1),
      ...beginnings(computing, COMPUTING, COMPUTING_AT_ONCE)
    ]
    return [...first, ...begun.sort((a, b) => a.at - b.at).map(({ test }) => test)]
  }
}

const nameOf = ({ path }, names) => names.find(name => path.includes(`/spec/${name}`))

/** When each would begin if so many ran at once, the slowest first. */
function beginnings(tests, durations, atOnce) {
  const secondsOf = test => durations[nameOf(test, Object.keys(durations))] ?? OTHERS
  let sum = 0
  return tests
    .sort((a, b) => secondsOf(b) - secondsOf(a))
    .map(test => {
      const at = sum / atOnce
      sum += secondsOf(test)
      return { test, at }
    })
}
