// Type-checks snippets as a user would compile them, against lib/; and reads the types of lib/ for
// who compares them.

import ts from 'typescript'
import { root, type Fence } from './markdown.js'

/** What snippets use without showing where it comes from. */
const AROUND = `
declare const app: import('express').Express
declare const server: import('@modelcontextprotocol/sdk/server/mcp.js').McpServer
declare const streams: import('express-mcp-streams').McpStreams
declare const verifier: import('@modelcontextprotocol/sdk/server/auth/provider.js').OAuthTokenVerifier
declare const url: URL
declare const client: import('@modelcontextprotocol/sdk/client/index.js').Client
declare function handleMcp(req: import('node:http').IncomingMessage, res: import('node:http').ServerResponse): Promise<void>
declare function newMcpServer(): import('@modelcontextprotocol/sdk/server/mcp.js').McpServer
declare function query(options: { signal?: AbortSignal }): Promise<string[]>
declare const express: typeof import('express')['default']
interface Row { name: string; size: number; etag: string; path: string; text?: string; presignedUrl?: string }
declare function find(uri: string, options: { owner?: string; signal: AbortSignal }): Promise<Row | undefined>
declare function freshToken(): Promise<string>
declare function answerMcp(request: Request): Promise<Response>
declare class AppModule {}
declare class EventSource {
  constructor(url: URL, options: { withCredentials: boolean })
  onmessage: (event: { data: string }) => void
}
declare module 'redis' {
  export function createClient(options: { url?: string | undefined }): {
    duplicate(overrides?: object): object
  }
}
declare module 'cors' {
  export default function cors(options: {
    origin: string
    credentials?: boolean
    methods: string[]
    allowedHeaders: string[]
    exposedHeaders: string[]
  }): import('express').RequestHandler
}
`

/**
 * What a strict project has. Not `exactOptionalPropertyTypes`: the SDK itself does not compile
 * under it.
 */
const OPTIONS = {
  exactOptionalPropertyTypes: false,
  noUnusedLocals: false,
  moduleDetection: ts.ModuleDetectionKind.Force,
  noEmit: true
}

export class Compiler {
  readonly #program: ts.Program
  readonly #checker: ts.TypeChecker

  /** @param doors the files of lib/ that types are read from */
  constructor(snippets: readonly Fence[], doors: readonly string[]) {
    const config = ts.readConfigFile(`${root}tsconfig.json`, ts.sys.readFile)
    const { options } = ts.parseJsonConfigFileContent(config.config, ts.sys, root)
    const virtual = new Map([[`${root}spec/e2e/readme/around.d.ts`, AROUND]])
    for (const snippet of snippets) virtual.set(root + nameOf(snippet), snippet.code)

    const host = ts.createCompilerHost({ ...options, ...OPTIONS })
    const { fileExists, readFile, getSourceFile } = host
    host.fileExists = file => virtual.has(file) || fileExists(file)
    host.readFile = file => virtual.get(file) ?? readFile(file)
    host.getSourceFile = (file, language, ...rest) => {
      const text = virtual.get(file)
      return text === undefined
        ? getSourceFile(file, language, ...rest)
        : ts.createSourceFile(file, text, language, true)
    }
    const roots = [...virtual.keys(), ...doors.map(door => root + door)]
    this.#program = ts.createProgram(roots, { ...options, ...OPTIONS }, host)
    this.#checker = this.#program.getTypeChecker()
  }

  /** What tsc says of a snippet, each with its line on its page. */
  faults(snippet: Fence): string[] {
    const { file, line } = snippet
    const source = this.#source(nameOf(snippet))
    const found = [
      ...this.#program.getSyntacticDiagnostics(source),
      ...this.#program.getSemanticDiagnostics(source)
    ]
    return found.map(({ start = 0, messageText }) => {
      const at = line + source.getLineAndCharacterOfPosition(start).line
      return `${file}:${at}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`
    })
  }

  /** The words of a union of strings that a door exports, from a to z. */
  words(door: string, name: string): string[] {
    const type = this.#typeOf(door, name)
    return (type.isUnion() ? type.types : [type])
      .map(word => (word as ts.StringLiteralType).value)
      .sort()
  }

  /** The members of an interface that a door exports, and the types that they are written with. */
  members(door: string, name: string): Map<string, string> {
    const properties = this.#typeOf(door, name).getProperties()
    return new Map(
      properties.map(property => {
        const { type } = property.valueDeclaration as ts.PropertySignature
        return [property.name, plain(type!.getText())]
      })
    )
  }

  /** What a type alias that a door exports stands for; `undefined` where there is none. */
  alias(door: string, name: string): string | undefined {
    const declaration = this.#exportOf(door, name)?.declarations?.[0]
    return declaration !== undefined && ts.isTypeAliasDeclaration(declaration)
      ? plain(textOf(declaration.type).replace(/\(\s+/g, '(').replace(/\s+\)/g, ')'))
      : undefined
  }

  #typeOf(door: string, name: string): ts.Type {
    const symbol = this.#exportOf(door, name)
    if (symbol === undefined) throw new Error(`${door} does not export ${name}`)
    return this.#checker.getDeclaredTypeOfSymbol(symbol)
  }

  #exportOf(door: string, name: string): ts.Symbol | undefined {
    const module = this.#checker.getSymbolAtLocation(this.#source(door))!
    const symbol = this.#checker.getExportsOfModule(module).find(exported => exported.name === name)
    return symbol && symbol.flags & ts.SymbolFlags.Alias
      ? this.#checker.getAliasedSymbol(symbol)
      : symbol
  }

  #source(file: string): ts.SourceFile {
    return this.#program.getSourceFile(root + file)!
  }
}

/** Where it is as if the snippet stood in a file of its own. */
function nameOf({ file, line }: Fence): string {
  return `spec/e2e/readme/${file.replaceAll('/', '.')}.${line}.ts`
}

/** How a type is written; of a method that stands for its function, how the function is. */
function textOf(type: ts.TypeNode): string {
  const [method] =
    ts.isIndexedAccessTypeNode(type) && ts.isTypeLiteralNode(type.objectType)
      ? type.objectType.members
      : []
  if (method === undefined || !ts.isMethodSignature(method)) return type.getText()
  const parameters = method.parameters.map(parameter => parameter.getText()).join(', ')
  return `(${parameters}) => ${method.type!.getText()}`
}

/** A type without what every one of them has, and readers do not need: readonly, or absent. */
export function plain(type: string): string {
  const short = type
    .replace(/\breadonly /g, '')
    .replaceAll(' | undefined', '')
    .replace(/\s+/g, ' ')
  return /^\(\(.*\)$/.test(short) ? short.slice(1, -1) : short
}
