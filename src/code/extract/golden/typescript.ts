import fs = require('fs')
import type { Ship, Cargo as Load } from './ship'
import { type Port, open } from '../port'
import config, * as all from './config'
export type { Tide } from './tide'
export { moor } from './moor'

declare module 'harbour' {
  export function signal(flag: Flag): void
  interface Options {
    depth: number
  }
}

declare global {
  var beacon: Beacon
}

namespace Nav.Charts {
  export const scale = 4
  export function draw(chart: Chart): void {}
}

export type Handler<T = unknown> = (ship: Ship, load: T) => Promise<void>
type Shape = { width: number; area(): number }

export enum Flag {
  Red,
  Green = 'green',
}

const enum Depth { Low = 1 }

export interface Dock<K extends string> extends Berth, Nav.Place<K> {
  readonly id: K
  depth?: Depth
  moor(ship: Ship): boolean
  new (name: string): Dock<K>
  [key: string]: unknown
}

export function load(ship: Ship): Load
export function load(ship: Ship, port: Port): Load
export function load(ship: Ship, port?: Port): Load {
  const found = ship.cargo as Load
  return port ? open(port).fill<Load>(found!) : (<Load>found)
}

@Injectable({ scope: Scope.Request })
export abstract class Harbour<T extends Ship> extends Base<T> implements Dock<'h'>, Closeable {
  private static readonly count: number = 0
  @Input() name!: string
  readonly #ships: Map<string, T> = new Map<string, T>()
  onEnter: Handler<T> = async (ship) => this.log(ship)
  private handlers = new Set<Handler>()

  constructor(private readonly port: Port, public depth = Depth.Low) {
    super()
  }

  abstract moor(ship: T): boolean

  get size(): number {
    return this.#ships.size
  }

  @HostListener('enter')
  async enter(@Inject(TOKEN) ship: T): Promise<Cargo | undefined> {
    for await (const load of ship.unload()) {
      this.port?.accept(load satisfies Load)
    }
    const local = (x: number): x is Depth => x in Depth
    return Harbour.find(ship.id, local)
  }

  static find<K>(id: string, ...rest: K[]): Ship | undefined {
    return undefined
  }
}

export const routes: Record<string, Handler> = {
  enter: async (ship) => {
    await lookup(ship)
  },
  leave: leaveHarbour,
}

export const lookup = async <T,>(ship: T, options: Options = {}): Promise<T> => {
  let timer: ReturnType<typeof setTimeout>
  const inner = function (this: Harbour<Ship>) {
    return this.enter
  }
  return inner.call(options)
}

abstract class Pilot {
  protected abstract steer(to: Port): void
}

export default class extends Pilot {
  steer = leaveHarbour
}
