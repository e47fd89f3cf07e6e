// What the CommonJS build exports is assigned once, while the module is loaded. A build that takes a
// class field for the variable of the same name would assign it anew for each object.

import { beforeAll, describe, expect, it } from '@jest/globals'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'
import { root, run } from './project.js'

const dist = join(root, 'dist')
let files: string[]

beforeAll(async () => {
  await run(process.execPath, ['.config/ensure-dist.js'], root)
  files = readdirSync(dist, { recursive: true, encoding: 'utf8' }).filter(path =>
    path.endsWith('.cjs')
  )
})

const isExports = (node: ts.Node): boolean =>
  /^(?:module\.)?exports$/.test(node.getText()) ||
  (ts.isPropertyAccessExpression(node) && isExports(node.expression)) ||
  (ts.isElementAccessExpression(node) && isExports(node.expression))

const isAssignment = ({ operatorToken: { kind } }: ts.BinaryExpression): boolean =>
  kind >= ts.SyntaxKind.FirstAssignment && kind <= ts.SyntaxKind.LastAssignment

/** A CommonJS module that is built in: what it exports is its own. */
const isModule = (node: ts.Node): boolean =>
  ts.isFunctionLike(node) && node.parameters.some(({ name }) => isExports(name))

/** Assignments to exports that are not statements of the module itself. */
function lateExports(text: string): string[] {
  const late: string[] = []
  const visit = (node: ts.Node): void => {
    const { parent } = node
    if (isModule(node)) return
    if (ts.isBinaryExpression(node) && isAssignment(node) && isExports(node.left))
      if (!ts.isExpressionStatement(parent) || !ts.isSourceFile(parent.parent))
        late.push(node.getText())
    ts.forEachChild(node, visit)
  }
  visit(ts.createSourceFile('built.cjs', text, ts.ScriptTarget.ES2022, true, ts.ScriptKind.JS))
  return late
}

describe('the CommonJS build', () => {
  it('assigns no export but once for all', () => {
    expect(files.length).toBeGreaterThan(10)
    const late = files.flatMap(file =>
      lateExports(readFileSync(join(dist, file), 'utf8')).map(text => `${file}: ${text}`)
    )
    expect(late).toEqual([])
  })

  it('would be caught at an export that a field overwrites', () => {
    const text = `
      exports.first = first
      class Kept { #tasks = exports.tasks = new Map(); constructor() { this.a = exports.a = 1 } }
      class Late { __init() { this.b = exports.b = false } }`
    expect(lateExports(text)).toEqual([
      'exports.tasks = new Map()',
      'exports.a = 1',
      'exports.b = false'
    ])
  })
})
