// Two runs of the suite side by side: what each counted, and what the second lost against the
// first.

const rank = { FAILURE: 0, WARNING: 1, SUCCESS: 3 }
/** A check that is absent, skipped or only informs is neither good nor bad. */
const rankOf = check => rank[check?.status] ?? 2

/** Ids repeat within a scenario, so the nth check of an id and a name is compared with the nth. */
function byKey(checks) {
  const seen = new Map()
  return new Map(
    checks.map(check => {
      const key = `${check.id} ${check.name}`
      const nth = seen.get(key) ?? 0
      seen.set(key, nth + 1)
      return [`${key} ${nth}`, check]
    })
  )
}

const count = (checks, status) => checks.filter(check => check.status === status).length
const counted = checks => ({
  pass: count(checks, 'SUCCESS'),
  warn: count(checks, 'WARNING'),
  fail: count(checks, 'FAILURE')
})

function lost(bare, other, unseen) {
  const [was, is] = [byKey(bare), byKey(other)]
  const hasResponse = check => check?.status === 'INFO' && check.details.receivedToolResponse
  return [...new Set([...was.keys(), ...is.keys()])]
    .filter(key => rankOf(is.get(key)) < rankOf(was.get(key)))
    .filter(key => !unseen.includes(was.get(key)?.id) || !hasResponse(is.get(key)))
    .map(key => ({
      id: (was.get(key) ?? is.get(key)).id,
      was: was.get(key)?.status ?? 'absent',
      is: is.get(key)?.status ?? 'absent',
      why: is.get(key)?.errorMessage
    }))
}

/**
 * One row per scenario of either run: `{ scenario, bare, with, lost }`. `lost` has each check that
 * passed bare and does not with the middleware, and each warning or failure that was none bare; but
 * not those of `unseen` that only say that the response has come.
 */
export function compare(bare, other, unseen = []) {
  const checksOf = (results, scenario) =>
    results.find(result => result.scenario === scenario)?.checks ?? []
  const scenarios = new Set([...bare, ...other].map(({ scenario }) => scenario))
  return [...scenarios].map(scenario => {
    const [was, is] = [checksOf(bare, scenario), checksOf(other, scenario)]
    return { scenario, bare: counted(was), with: counted(is), lost: lost(was, is, unseen) }
  })
}

/**
 * The ids among `ids` that the results do not show as passed, each time they occur; `all`: of all
 * that were not skipped, and do more than inform.
 */
export function unproven(results, ids) {
  const checks = results.flatMap(result => result.checks)
  const counting = checks.filter(({ status }) => Object.hasOwn(rank, status))
  const wanted = ids === 'all' ? [...new Set(counting.map(({ id }) => id))] : ids
  return wanted.filter(id => {
    const found = checks.filter(check => check.id === id)
    return (
      found.length === 0 ||
      found.some(check => check.status !== 'SUCCESS' && (ids !== 'all' || check.status in rank))
    )
  })
}

/** The sum of one side (`bare` or `with`) over all rows. */
export const total = (rows, side) =>
  rows.reduce(
    (sum, { [side]: row }) => ({
      pass: sum.pass + row.pass,
      warn: sum.warn + row.warn,
      fail: sum.fail + row.fail
    }),
    { pass: 0, warn: 0, fail: 0 }
  )
