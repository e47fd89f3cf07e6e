// A reporter of Jest, for index.js: which lines of which files each spec reaches, and how long it
// takes. It writes them where REACH says.

import fs from 'node:fs'
import { SourceMap } from 'node:module'
import { relative } from 'node:path'

export default class Reach {
  #specs = []

  onTestResult({ path }, { coverage = {}, perfStats, numFailingTests, testExecError }) {
    if (numFailingTests > 0 || testExecError) throw new Error(`${path} fails as it is`)
    const lines = {}
    for (const [file, { s: hits, statementMap, inputSourceMap }] of Object.entries(coverage)) {
      if (inputSourceMap === undefined) continue
      const source = new SourceMap(inputSourceMap)
      const starts = Object.keys(hits).flatMap(key =>
        hits[key] > 0 ? statementMap[key].start : []
      )
      const reached = starts.map(
        ({ line, column }) => source.findEntry(line - 1, column).originalLine + 1
      )
      lines[relative('.', file)] = [...new Set(reached)]
    }
    this.#specs.push({ spec: relative('.', path), time: perfStats.end - perfStats.start, lines })
  }

  onRunComplete() {
    fs.writeFileSync(process.env.REACH, JSON.stringify(this.#specs))
  }
}
