// The configurations of nginx and HAProxy in the guide to operations, with ports, paths and limits that
// suit a spec.

import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { until } from '../../helpers/happenings.js'
import { Markdown } from '../readme/markdown.js'
import { adapt, find, start, type Daemon } from './daemon.js'

/** The prefix that both take off. */
export const PREFIX = '/gateway'
/**
 * Silence that both cut at, in seconds: longer than what a busy machine makes of half a second
 * between comments.
 */
export const LIMIT = 4

export type Change = readonly [from: string, to: string]

/** Starts a proxy in front of a port of loopback; `changes` are made in the README's text. */
export type StartProxy = (target: number, changes?: readonly Change[]) => Promise<Daemon>

export const programs = { nginx: find('nginx'), haproxy: find('haproxy') }

const textsOf = (page: string): [string, string] =>
  ['nginx', 'haproxy'].map(
    language => new Markdown(page).fences.find(fence => fence.language === language)!.code
  ) as [string, string]

const [nginxText, haproxyText] = textsOf('examples/operations/README.md')
const [upstreamText, instancesText] = textsOf('examples/cluster/README.md')

/** All that nginx writes goes into its folder. */
const around = (http: string, folder: string, limit = LIMIT): string => `
daemon off;
pid ${join(folder, 'pid')};
error_log stderr;
events {}
http {
  client_body_temp_path ${join(folder, 'client-body')};
  proxy_temp_path ${join(folder, 'proxy')};
  fastcgi_temp_path ${join(folder, 'fastcgi')};
  uwsgi_temp_path ${join(folder, 'uwsgi')};
  scgi_temp_path ${join(folder, 'scgi')};
  proxy_read_timeout ${limit}s;
  proxy_send_timeout ${limit}s;
  send_timeout ${limit}s;
  ${http}
}
`

/** Where the access log of nginx is; HAProxy writes to its standard output. */
export const ACCESS_LOG = 'access.log'

export const startNginx: StartProxy = (target, changes = []) =>
  start({
    program: programs.nginx ?? 'nginx',
    config: (port, folder) => {
      const own: Change[] = [
        ['listen 8080', `listen 127.0.0.1:${port}`],
        ['127.0.0.1:3000', `127.0.0.1:${target}`],
        ['/var/log/nginx/mcp.log', join(folder, ACCESS_LOG)]
      ]
      return around(adapt(nginxText, [...changes, ...own]), folder)
    },
    args: (file, folder) => ['-p', folder, '-e', 'stderr', '-c', file]
  })

export const startHaproxy: StartProxy = (target, changes = []) =>
  start({
    program: programs.haproxy ?? 'haproxy',
    config: port =>
      adapt(haproxyText, [
        ...changes,
        ['bind :8080', `bind 127.0.0.1:${port}`],
        ['127.0.0.1:3000', `127.0.0.1:${target}`],
        ['timeout client 30s', `timeout client ${LIMIT}s`],
        ['timeout server 30s', `timeout server ${LIMIT}s`]
      ]),
    args: file => ['-db', '-f', file]
  })

/** In front of two instances, as the page on these says. */
export const startBeforeTwo = {
  nginx: (one: number, two: number): Promise<Daemon> =>
    start({
      program: programs.nginx ?? 'nginx',
      config: (port, folder) => {
        const own = adapt(upstreamText, [['listen 8080', `listen 127.0.0.1:${port}`]])
        return around(`access_log off;\n${atPorts(own, one, two)}`, folder)
      },
      args: (file, folder) => ['-p', folder, '-e', 'stderr', '-c', file]
    }),
  haproxy: (one: number, two: number): Promise<Daemon> =>
    start({
      program: programs.haproxy ?? 'haproxy',
      config: port =>
        atPorts(adapt(instancesText, [['bind :8080', `bind 127.0.0.1:${port}`]]), one, two),
      args: file => ['-db', '-f', file]
    })
}

export interface Balancer extends Daemon {
  /** It sends nothing more to these ports. Resolves when it has read that. */
  takeOut(ports: readonly number[]): Promise<void>
}

/**
 * nginx in front of instances at so many ports, as the same page says. Its own limits of time are
 * those that it has by default. Each connection has one request: a proxy that reads its
 * configuration again closes those that are idle, whatever their clients are about to send.
 */
export async function startBeforeThree(ports: readonly number[]): Promise<Balancer> {
  const configFor = (port: number, folder: string, out: readonly number[]): string => {
    const [, ...more] = upstreamText.match(/^ *server 127\.0\.0\.1:\d+.*;$/gm) ?? []
    const line = more[0] ?? ''
    const lineFor = (one: number): string => {
      const own = line.replace(/:\d+/, `:${one}`)
      return out.includes(one) ? own.replace(';', ' down;') : own
    }
    const text = adapt(upstreamText, [
      ['listen 8080', `listen 127.0.0.1:${port}`],
      [line, ports.map(lineFor).join('\n')]
    ])
    const own = text.replace(/^ *server 127\.0\.0\.1:3001.*;$/m, '')
    const whole = around(`access_log off;\nkeepalive_timeout 0;\n${own}`, folder, 60)
    return adapt(whole, [['error_log stderr', 'error_log stderr notice']])
  }
  const daemon = await start({
    program: programs.nginx ?? 'nginx',
    config: (port, folder) => configFor(port, folder, []),
    args: (file, folder) => ['-p', folder, '-e', 'stderr', '-c', file]
  })
  const { port, folder } = daemon
  return Object.assign(daemon, {
    async takeOut(out: readonly number[]): Promise<void> {
      const stopped = (): number => daemon.output().split('gracefully shutting down').length
      const before = stopped()
      await writeFile(join(folder, 'config'), configFor(port, folder, out))
      process.kill(Number(await readFile(join(folder, 'pid'), 'utf8')), 'SIGHUP')
      // Its one worker of before takes nothing more.
      await until(() => stopped() > before)
    }
  })
}

const atPorts = (text: string, one: number, two: number): string =>
  adapt(text, [
    ['127.0.0.1:3001', `127.0.0.1:${one}`],
    ['127.0.0.1:3002', `127.0.0.1:${two}`]
  ])
