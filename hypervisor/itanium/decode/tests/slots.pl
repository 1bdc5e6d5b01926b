# SPDX-License-Identifier: MIT
# Random bundles: all templates, and slots of which many fields are 0, as most instructions want it of some.
srand(1);
my @templates = (0..5, 8..19, 22..25, 28, 29);
sub slot {
    my $slot = int(rand(2 ** 41));
    for (1 .. int(rand(6)) - 2) {
        my $low = int(rand(41));
        $slot &= ~((2 ** (1 + int(rand(10))) - 1) << $low);
    }
    $slot = $slot & 2 ** 37 - 1 | int(rand(8)) << 37 if rand() < 0.4;
    return $slot & 2 ** 41 - 1;
}
for (1 .. $ARGV[0]) {
    my ($first, $second, $third) = (slot(), slot(), slot());
    print pack("Q<Q<", $templates[rand @templates] | $first << 5 | ($second & 2 ** 18 - 1) << 46, $second >> 18 | $third << 23);
}
