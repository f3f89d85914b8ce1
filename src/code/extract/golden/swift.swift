import Foundation
import struct Network.Endpoint
@testable import Sky

let maxClouds = 12
private var cache: [String: Cloud] = [:]

typealias Completion = (Result<Cloud, WeatherError>) -> Void

@objc protocol Observer: AnyObject, Named {
    associatedtype Reading
    var last: Reading? { get }
    func observe(_ cloud: Cloud, at time: Date) throws -> Reading
    init(name: String)
}

enum WeatherError: Error, Equatable {
    case dry
    case wet(amount: Double), cold
    static let worst = WeatherError.cold

    var isBad: Bool {
        switch self {
        case .dry: return false
        default: return true
        }
    }
}

struct Cloud: Codable {
    let id: UUID
    var drops = 0, height: Double?
    @Published private(set) var name: String = "cumulus" {
        didSet { log(name) }
    }

    init(id: UUID = UUID()) {
        self.id = id
    }

    mutating func rain(_ drops: Int) -> Self {
        self.drops -= drops
        return self
    }

    subscript(index: Int) -> Drop { drop(at: index) }
}

@MainActor
public final class Station<S: Sensor>: NSObject, Observer where S.Value == Double {
    weak var delegate: StationDelegate?
    private let sensors: [S]
    lazy var queue = DispatchQueue(label: "station")

    public init(sensors: [S]) {
        self.sensors = sensors
        super.init()
    }

    deinit { stop() }

    @discardableResult
    func observe(_ cloud: Cloud, at time: Date) async throws -> Reading {
        let values = sensors.map { $0.read() }.filter(isValid)
        let local = Cloud.sample(maxClouds)
        guard let first = values.first else { throw WeatherError.dry }
        func average(_ values: [Double]) -> Double {
            values.reduce(0, +) / Double(values.count)
        }
        queue.async { [weak self] in
            self?.delegate?.station(self!, didRead: average(values))
        }
        let reading = try await Reading(first, cloud: local)
        if let old = cache[cloud.name] as? Cloud, old.id == cloud.id {
            return merge(reading, with: old, using: combine)
        }
        return reading
    }

    class func shared() -> Station { Station(sensors: []) }

    struct Options: OptionSet { let rawValue: Int }
}

extension Station: CustomStringConvertible {
    var description: String { "\(sensors.count) sensors" }

    static func == (left: Station, right: Station) -> Bool { left === right }
}

extension Array where Element == Cloud {
    func heaviest() -> Cloud? { self.max { $0.drops < $1.drops } }
}

actor Log {
    func write(_ line: String) {}
}

func report<T: Observer>(_ observer: T, done: @escaping Completion) {
    done(.failure(.dry))
    Log().write("done")
}
