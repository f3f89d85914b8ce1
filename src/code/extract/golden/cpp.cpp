#include <vector>
#include "engine/track.hpp"

using namespace engine;
using std::vector;
using Laps = vector<int>;

namespace race::track {

namespace {
constexpr int kLaps = 3;
int helper(int a) { return a + kLaps; }
}

template <typename T, int N = 4>
class Car : public Vehicle, private engine::Timer<T> {
public:
    enum class Gear : unsigned { Low, High };

    explicit Car(const std::string& name) : Vehicle(name), gear_(Gear::Low) {}
    Car(Car&&) = default;
    virtual ~Car();

    template <class F>
    void each(F&& visit) {
        for (auto& wheel : wheels_) {
            visit(wheel);
        }
    }

    int speed() const noexcept override { return speed_; }
    bool operator==(const Car& other) const;
    static Car* make(int seats);
    std::string& name();
    virtual void stop() = 0;

private:
    Gear gear_;
    std::vector<Wheel> wheels_;
    int speed_ = 0, limit_;
    Pilot* pilot_;
    friend class Race;
};

struct Wheel final : Part {
    double size;
    struct Tyre { int age; } tyre;
};

union Reading { int i; float f; };

template <typename T, int N>
Car<T, N>::~Car() { pilot_->leave(); }

bool Race::start(Track& track, int laps) {
    auto car = std::make_unique<Sport>(laps);
    auto done = [&](const Car<int>& c) { return c.speed() > kLaps; };
    int total = 0;
    Laps laps_left(laps);
    for (const auto& each : track.cars()) {
        total += helper(each.speed());
        each->template cast<Sport>().boost();
    }
    if (dynamic_cast<Sport*>(car.get())) {
        throw RaceError("bad", Gear::High);
    }
    std::sort(laps_left.begin(), laps_left.end(), compare_laps);
    return done(*new Sport{1});
}

const Track* Race::track() const { return track_; }
Track& Race::mutable_track() { return *track_; }

std::ostream& operator<<(std::ostream& out, const Race& race) {
    return out << race.track()->name();
}

int Race::Stats::total = 0;
static Race* current = nullptr;
void finish(Race* race, double at = 1.0);

template <typename T>
concept Drivable = requires(T t) { t.drive(); };

}  // namespace race::track

extern "C" {
int race_open(const char* name) { return race::track::helper(1); }
}

TEST(RaceTest, StartsOnce) {
    EXPECT_TRUE(race::track::open("x"));
}
